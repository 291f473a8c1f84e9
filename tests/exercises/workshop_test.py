"""Tests of tools/workshop on a small project of its own: a repository with one task, in a temporary folder."""
import contextlib
import io
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools/workshop"
sys.path.insert(0, str(TOOLS))
from learner import Workshop  # noqa: E402
from run import check_task  # noqa: E402
from tasks import WorkshopError, learner_file, mutated, read_tasks  # noqa: E402
from workshop import check_all  # noqa: E402

SOURCE = """#include "some.h"
int f() {
  int ten = 10;
  // BEGIN SOLUTION 02.1 eleven
  int eleven = ten + 1;
  return eleven;
  // END SOLUTION
}
"""
TEXT = """# 02.1 eleven

Return one more than ten.

## Hint 1
What comes after ten?
## Hint 2
+ adds.
## Hint 3
One sum, returned.
## Mutant: off by one
-ten + 1
+ten + 2
## Mutant: two lines at once
-int eleven = ten + 1;
-return eleven;
+return ten;
"""


class WorkshopTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.root = Path(self.temporary.name)
        self.write("chapters/02_manual/f.cpp", SOURCE)
        self.write("tests/exercises/02_1_eleven.md", TEXT)
        self.write("tests/exercises/02_test.cpp", 'TEST_CASE("eleven", "[02.1]")')

    def tearDown(self):
        self.temporary.cleanup()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def expect_refused(self, *words):
        with self.assertRaises(WorkshopError) as caught:
            read_tasks(self.root)
        for word in ("02.1", *words):
            self.assertIn(word, str(caught.exception))

    def source(self, old, new):
        self.write("chapters/02_manual/f.cpp", SOURCE.replace(old, new))

    def text(self, old, new):
        self.write("tests/exercises/02_1_eleven.md", TEXT.replace(old, new))

    def program(self, script):
        path = self.write("program", "#!/bin/bash\n" + script)
        path.chmod(0o755)
        return check_task(path, self.task())

    def task(self):
        return read_tasks(self.root)[0]

    def workshop(self):
        return Workshop(self.root, self.root / "workshop", read_tasks(self.root))

    # what the build refuses, always with the task's name

    def test_a_region_that_is_never_closed(self):
        self.source("  // END SOLUTION\n", "")
        self.expect_refused("never closed")

    def test_an_end_without_a_begin(self):
        self.source("  // END SOLUTION\n", "  // END SOLUTION\n  // END SOLUTION\n")
        self.expect_refused("without a BEGIN")

    def test_a_region_in_a_region(self):
        self.source("  return eleven;", "  // BEGIN SOLUTION 02.2 inner\n  return eleven;")
        self.expect_refused("still open", "02.2")

    def test_an_empty_region(self):
        self.source("  int eleven = ten + 1;\n  return eleven;\n", "")
        self.expect_refused("no solution")

    def test_a_mark_with_a_mistake(self):
        self.source("// END SOLUTION", "// END SOLUTION 02.1")
        self.expect_refused("expected '// BEGIN SOLUTION NN.k title'")

    def test_a_task_that_stands_twice(self):
        self.write("chapters/02_manual/g.cpp", SOURCE)
        self.expect_refused("twice", "f.cpp", "g.cpp")

    def test_two_hints_are_too_few(self):
        self.text("## Hint 3\nOne sum, returned.\n", "")
        self.expect_refused("three hints")

    def test_an_empty_hint(self):
        self.text("What comes after ten?\n", "")
        self.expect_refused("Hint 1")

    def test_one_mutant_is_too_few(self):
        self.text("## Mutant: off by one\n-ten + 1\n+ten + 2\n", "")
        self.expect_refused("two mutants")

    def test_a_mutant_of_code_that_is_not_there(self):
        self.text("-ten + 1", "-ten - 1")
        self.expect_refused("off by one", "0 times")

    def test_a_task_without_a_text(self):
        (self.root / "tests/exercises/02_1_eleven.md").unlink()
        self.expect_refused("hints and mutants")

    def test_a_text_without_a_task(self):
        self.source("02.1", "02.2")
        self.expect_refused("no source has")

    def test_another_title(self):
        self.text("# 02.1 eleven", "# 02.1 twelve")
        self.expect_refused("twelve")

    # tasks with a mistake to be found

    MISTAKE = "## Mistake: too much\n-ten + 1\n+ten + 2\n## Mutant: off by one\n-ten + 1\n+ten + 3\n"

    def with_mistake(self):
        self.text("## Mutant: off by one\n-ten + 1\n+ten + 2\n", self.MISTAKE)

    def test_the_learner_gets_the_solution_with_the_mistake(self):
        self.with_mistake()
        text = learner_file(self.root, self.task().source, [self.task()], solved=False)
        self.assertIn("  // Return one more than ten.\n  int eleven = ten + 2;\n  return eleven;\n  // END EXERCISE", text)
        self.assertEqual([mutant.what for mutant in self.task().mutants], ["too much", "off by one", "two lines at once"])

    def test_a_mistake_that_shows(self):
        self.with_mistake()
        self.write("tests/exercises/02_1_eleven.md", (self.root / "tests/exercises/02_1_eleven.md").read_text().replace(
            "## Mistake: too much\n-ten + 1\n+ten + 2\n", "## Mistake: too much\n-return eleven;\n+eleven++;\n+return eleven;\n"))
        self.expect_refused("parts of single lines")

    def test_a_mistake_that_is_not_found_yet(self):
        self.with_mistake()
        outcome = self.program("echo 'DIFFERENCE f(): expected 11, found 12'; exit 1")
        self.assertEqual((outcome.state, outcome.text), ("not found yet", "not found yet: f(): expected 11, found 12"))

    def test_what_is_not_begun_is_not_implemented_whatever_its_test_needs(self):
        path = self.write("program", "#!/bin/bash\necho 'exercise 02.4 is not implemented yet'; exit 1")
        path.chmod(0o755)
        region = 'throw miniddp::Error("exercise 02.1 is not implemented yet");'
        self.assertEqual(check_task(path, self.task(), region).text, "not implemented yet")
        self.assertEqual(check_task(path, self.task(), "return 11;").text, "waits for task 02.4, which its test needs")

    def test_a_task_without_a_test(self):
        self.write("tests/exercises/02_test.cpp", "")
        self.expect_refused("no test case")

    # what is made of a task

    def test_the_starter_and_the_solution(self):
        task = self.task()
        starter = learner_file(self.root, task.source, [task], solved=False)
        self.assertIn("exercise 02.1 is not implemented yet", starter)
        self.assertIn("  // Return one more than ten.", starter)
        self.assertNotIn("ten + 1", starter)
        self.assertNotIn("SOLUTION", starter)
        self.assertIn("int ten = 10;", starter)
        self.assertIn("ten + 1", learner_file(self.root, task.source, [task], solved=True))

    def test_mutants(self):
        task = self.task()
        self.assertIn("ten + 2", mutated(self.root, task, task.mutants[0]))
        second = mutated(self.root, task, task.mutants[1])
        self.assertIn("return ten;", second)
        self.assertNotIn("eleven;", second)

    # the learner's side

    def test_start_never_overwrites(self):
        workshop = self.workshop()
        folder, backup = workshop.start("02", force=False, mine=False)
        self.assertIsNone(backup)
        (folder / "f.cpp").write_text("my work")
        with self.assertRaisesRegex(WorkshopError, "--force"):
            workshop.start("02", force=False, mine=False)
        self.assertEqual((folder / "f.cpp").read_text(), "my work")
        _, first = workshop.start("02", force=True, mine=False)
        self.assertEqual((first / "f.cpp").read_text(), "my work")
        _, second = workshop.start("02", force=True, mine=True)
        self.assertNotEqual(first, second)
        self.assertEqual((first / "f.cpp").read_text(), "my work")
        self.assertTrue((folder / "uses_mine").exists())

    def test_hints_come_one_after_the_other_and_are_remembered(self):
        found = [self.workshop().next_hint(self.task())[0] for _ in range(4)]
        self.assertEqual(found, [1, 2, 3, 3])

    def test_the_difference_to_the_solution(self):
        workshop = self.workshop()
        folder, _ = workshop.start("02", force=False, mine=False)
        self.assertIn("+  int eleven = ten + 1;", workshop.difference(self.task()))
        (folder / "f.cpp").write_text(learner_file(self.root, self.task().source, [self.task()], solved=True))
        self.assertEqual(workshop.difference(self.task()), [])
        (folder / "f.cpp").write_text("int f() { return 0; }\n")  # the marks are gone
        self.assertIn("-int f() { return 0; }", workshop.difference(self.task()))

    def test_a_damaged_record_is_named(self):
        self.write("workshop/progress.json", "{")
        with self.assertRaisesRegex(WorkshopError, "progress.json is damaged"):
            self.workshop()

    # how a test program ended

    def test_outcomes(self):
        for script, state, text in (
            ("echo 'All tests passed (3 assertions in 1 test case)'", "passed", "passed"),
            ("exit 0", "failed", "ended before its test did"),
            ("echo 'exercise 02.1 is not implemented yet'; exit 1", "not implemented yet", "not implemented yet"),
            ("echo 'exercise 02.4 is not implemented yet'; exit 1", "waiting", "task 02.4"),
            ("echo 'DIFFERENCE f(): expected 11, found 12'; exit 1", "failed", "failed: f(): expected 11, found 12"),
            ("kill -SEGV $$", "failed", "crashed (SIGSEGV)"),
            ("echo '==1==ERROR: AddressSanitizer: heap-buffer-overflow on'; exit 1", "failed", "sanitizer stopped it: heap-buffer"),
            ("printf 'due to unexpected exception with message:\\n  no such tensor\\n\\n'; exit 1", "failed", "your code threw: no such tensor"),
        ):
            outcome = self.program(script)
            self.assertEqual(outcome.state, state)
            self.assertIn(text, outcome.text)

    def test_a_hang_ends_and_leaves_no_process_behind(self):
        import run
        limit, run.LIMIT_SECONDS = run.LIMIT_SECONDS, 1
        marker = self.root / "alive"
        try:
            status, output = run.run(self.write_program(f"echo begun; (sleep 3; touch {marker}) & sleep 60"), "02.1", 1)
        finally:
            run.LIMIT_SECONDS = limit
        self.assertIsNone(status)
        self.assertIn("begun", output)
        self.assertIn("hangs", run.explain(status, output))
        time.sleep(3)
        self.assertFalse(marker.exists())

    def test_a_hanging_test_dies_with_a_check_that_is_killed(self):
        program = self.write_program("echo $$ >" + str(self.root / "pid") + "; exec sleep 60")
        check = subprocess.Popen([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(TOOLS)!r}); import run; run.run({str(program)!r}, '02.1')"])
        deadline = time.monotonic() + 20
        while not (self.root / "pid").exists() or not (self.root / "pid").read_text().strip():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        hanging = Path("/proc", (self.root / "pid").read_text().strip())
        check.kill()
        check.wait()
        while hanging.exists() and "sleep" in (hanging / "cmdline").read_text():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def write_program(self, script):
        path = self.write("program", "#!/bin/bash\n" + script)
        path.chmod(0o755)
        return path

    def test_an_emptied_file_has_not_passed(self):
        workshop = self.workshop()
        workshop.start("02", force=False, mine=False)
        program = self.write("program", "#!/bin/bash\necho 'All tests passed (1 assertion in 1 test case)'\n")
        program.chmod(0o755)
        for text, passes in (("// BEGIN EXERCISE 02.1 eleven\n// END EXERCISE\n", True), ("", False), ("// BEGIN EXERCISE 02.1 eleven\n", False)):
            self.write("workshop/02_manual/f.cpp", text)
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                self.assertEqual(check_all(workshop, program, workshop.tasks), passes)
            self.assertEqual("put them back" in printed.getvalue(), not passes)


class PlanTest(unittest.TestCase):
    """docs/workshop.md knows every task, by its title, and plans with no other."""

    ROOT = TOOLS.parents[1]
    PLAN = (ROOT / "docs/workshop.md").read_text()

    def test_the_table_is_the_tasks(self):
        rows = re.findall(r"^\| (\d\d\.\d+ [^|]+?) \| [^|]+ \| \d+ \| ·+ \|$", self.PLAN, re.MULTILINE)
        self.assertEqual(rows, [str(task) for task in read_tasks(self.ROOT)])

    def test_the_plans_name_tasks_that_exist(self):
        known = {task.name for task in read_tasks(self.ROOT)}
        planned = re.findall(r"\b\d\d\.\d+\b", "".join(re.findall(r"^\| (?:\d+:\d\d|evening) .*$", self.PLAN, re.MULTILINE)))
        self.assertGreater(len(planned), 40)
        self.assertEqual([name for name in planned if name not in known], [])


class PipeTest(unittest.TestCase):
    def test_nobody_reads_on(self):
        command = f"'{sys.executable}' -B '{TOOLS}/workshop.py' progress | true"
        done = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, text=True, timeout=30, check=False)
        self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    unittest.main()
