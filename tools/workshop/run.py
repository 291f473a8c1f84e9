"""Runs the test cases of a task, and says how they ended in a learner's words."""
import ctypes
import os
import re
import signal
import subprocess
from dataclasses import dataclass

from tasks import not_implemented

PASSED, MISSING, WAITING, NOT_FOUND, FAILED = "passed", "not implemented yet", "waiting", "not found yet", "failed"
LIMIT_SECONDS = 30


@dataclass
class Outcome:
    state: str
    text: str  # for the learner; one line or more


def run(program, tag, limit=LIMIT_SECONDS):
    """(exit status or None if it took too long, its output). Nothing that it started is left behind."""
    environment = dict(os.environ, OMP_WAIT_POLICY="passive", ASAN_OPTIONS="detect_leaks=0:detect_stack_use_after_return=0",
                       UBSAN_OPTIONS="print_stacktrace=1")
    process = subprocess.Popen([str(program), f"[{tag}]"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True, env=environment, preexec_fn=end_with_us)
    try:
        output, _ = process.communicate(timeout=limit)
        status = process.returncode
    except subprocess.TimeoutExpired:
        status = None
        kill_group(process.pid)
        output, _ = process.communicate()
    finally:
        kill_group(process.pid)
    return status, output.decode(errors="replace")


C_LIBRARY = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


def end_with_us():
    """In the child: a test that hangs must not outlive a check that is killed."""
    C_LIBRARY.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def kill_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def check_task(program, task, region=""):
    """An Outcome. `region`: the learner's lines, to tell what has not been begun from what waits for another task."""
    status, output = run(program, task.name)
    if status == 0 and "All tests passed" in output:
        return Outcome(PASSED, PASSED)
    if status == 0:
        return Outcome(FAILED, "failed: the program ended before its test did, as if by exit(0)")
    if not_implemented(task.name) in output:
        return Outcome(MISSING, MISSING)
    other = re.search(r"exercise (\d\d\.\d+) is not implemented yet", output)
    if other and not_implemented(task.name) in region:
        return Outcome(MISSING, MISSING)
    if other:
        return Outcome(WAITING, f"waits for task {other[1]}, which its test needs")
    if status == 77:
        return Outcome(FAILED, "could not be tried: " + (last_lines(output, 3) or "it was skipped"))
    text = explain(status, output)
    if task.mistake:
        return Outcome(NOT_FOUND, f"{NOT_FOUND}: " + text.removeprefix("failed: "))
    return Outcome(FAILED, text)


def explain(status, output):
    sanitizer = re.search(r"ERROR: AddressSanitizer: (.+)|^(.+ runtime error: .+)$", output, re.MULTILINE)
    if sanitizer:
        place = re.search(r"#\d+ 0x[0-9a-f]+ in (.+?) \S*(workshop/\d\S+)", output)
        what = (sanitizer[1] or sanitizer[2]).strip()
        return "the sanitizer stopped it: " + what + (f"\nin {place[1]}, {place[2]}" if place else "")
    if status is None:
        return f"hangs: it did not end within {LIMIT_SECONDS} seconds" + ("\n" + first_failure(output) if first_failure(output) else "")
    assertion = re.search(r"[Aa]ssertion ['`].*' failed", output)
    if assertion:
        hint = " (an index outside of a vector, most likely)" if "this->size()" in assertion[0] else ""
        return "crashed: " + assertion[0] + hint
    failure = first_failure(output)
    if status < 0:
        name = signal.Signals(-status).name
        return f"crashed ({name})" + (": " + failure if failure else "")
    if "SIG" in failure and "fatal error condition" in output:
        return "crashed: " + failure
    return "failed: " + (failure or last_lines(output, 8))


def first_failure(output):
    """The first thing that was wrong, as the test told it."""
    difference = re.search(r"^DIFFERENCE (.+)$", output, re.MULTILINE)
    thrown = re.search(r"due to unexpected exceptions? with messages?:\n((?:  .+\n)+)", output)
    fatal = re.search(r"due to a fatal error condition:\n((?:  .+\n)+)", output)
    expression = re.search(r"FAILED:\n((?:  .+\n)+(?:with expansion:\n(?:  .+\n)+)?)", output)
    found = [(match.start(), text + squeeze(match[1])) for match, text in
             ((difference, ""), (thrown, "your code threw: "), (fatal, ""), (expression, "")) if match and "{Unknown expression" not in match[0]]
    return min(found)[1] if found else ""


def squeeze(text):
    return "\n".join(line.strip() for line in text.strip().splitlines())


def last_lines(output, count):
    return "\n".join(line for line in output.strip().splitlines()[-count:])
