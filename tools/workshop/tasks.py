"""The tasks: regions of the sources, and one text file for each. docs/workshop.md describes both formats."""
import re
from dataclasses import dataclass, field
from pathlib import Path

BEGIN = re.compile(r"^(\s*)// BEGIN SOLUTION (\d\d)\.(\d+) (.+?)\s*$")
END = re.compile(r"^\s*// END SOLUTION\s*$")
LEARNER_BEGIN = re.compile(r"^\s*// BEGIN EXERCISE (\d\d)\.(\d+) ")
LEARNER_END = re.compile(r"^\s*// END EXERCISE\s*$")
SOURCES = ("chapters/**/*.cpp", "chapters/**/*.cu", "common/**/*.cpp", "common/**/*.cu")


class WorkshopError(Exception):
    """What is wrong with a task, a command or the learner's copy, in a sentence."""


@dataclass
class Mutant:
    what: str
    changes: list  # of (old, new): fragments of code


@dataclass
class Task:
    chapter: str  # "02"
    number: int
    title: str
    source: Path  # relative to the root
    first: int  # line of BEGIN, from 0
    last: int  # line of END
    assignment: str = ""
    hints: list = field(default_factory=list)
    mutants: list = field(default_factory=list)
    mistake: Mutant | None = None  # the learner gets the solution with this mistake in it; also the first of the mutants

    @property
    def name(self):
        return f"{self.chapter}.{self.number}"

    def __str__(self):
        return f"{self.name} {self.title}"


def not_implemented(name):
    return f"exercise {name} is not implemented yet"


def read_regions(root, source):
    """The tasks in one file."""
    tasks, open_task = [], None
    for number, line in enumerate((root / source).read_text().splitlines()):
        where = f"{source}:{number + 1}"
        begin = BEGIN.match(line)
        if begin:
            if open_task:
                raise WorkshopError(f"{where}: task {open_task} is still open where {begin[2]}.{begin[3]} begins")
            open_task = Task(begin[2], int(begin[3]), begin[4], source, number, -1)
        elif END.match(line):
            if not open_task:
                raise WorkshopError(f"{where}: END SOLUTION without a BEGIN; the task before it is {tasks[-1] if tasks else 'none'}")
            open_task.last = number
            if open_task.last == open_task.first + 1:
                raise WorkshopError(f"{where}: task {open_task} has no solution")
            tasks.append(open_task)
            open_task = None
        elif "BEGIN SOLUTION" in line or "END SOLUTION" in line:
            raise WorkshopError(f"{where}: expected '// BEGIN SOLUTION NN.k title' or '// END SOLUTION', found '{line.strip()}'")
    if open_task:
        raise WorkshopError(f"{source}:{open_task.first + 1}: task {open_task} is never closed by END SOLUTION")
    return tasks


def read_mutant(task, what, text):
    """Lines with - are replaced by the lines with + that follow; what is indented alike need not be alike in the source."""
    changes, old, new = [], [], []

    def close():
        if new and not old:
            raise WorkshopError(f"task {task}: mutant '{what}' adds lines without saying where: begin with a - line")
        if old:
            changes.append(("\n".join(old), "\n".join(new)))

    for line in text.strip().splitlines():
        if line.startswith("-"):
            if new:
                close()
                old, new = [], []
            old.append(line[1:].strip())
        elif line.startswith("+"):
            new.append(line[1:].strip())
        elif line.strip() and not line.startswith("```"):
            raise WorkshopError(f"task {task}: mutant '{what}': expected lines that begin with - or +, found '{line}'")
    close()
    if not changes:
        raise WorkshopError(f"task {task}: mutant '{what}' changes nothing")
    return Mutant(what, changes)


def read_text(task, path):
    """Fills in what stands in the task's file: the assignment, three hints, the mutants."""
    parts = re.split(r"^## (.+)$", path.read_text(), flags=re.MULTILINE)
    heading = parts[0].strip().splitlines()[0] if parts[0].strip() else ""
    if heading != f"# {task}":
        raise WorkshopError(f"task {task}: expected {path.name} to begin with '# {task}', found '{heading}'")
    task.assignment = "\n".join(parts[0].strip().splitlines()[1:]).strip()
    if not task.assignment:
        raise WorkshopError(f"task {task}: {path.name} does not say what is to be done")
    for heading, text in zip(parts[1::2], parts[2::2]):
        if re.fullmatch(r"Hint \d", heading):
            if heading != f"Hint {len(task.hints) + 1}" or not text.strip():
                raise WorkshopError(f"task {task}: expected Hint {len(task.hints) + 1} with a text, found '{heading}'")
            task.hints.append(text.strip())
        elif heading.startswith("Mutant: "):
            task.mutants.append(read_mutant(task, heading[len("Mutant: "):].strip(), text))
        elif heading.startswith("Mistake: ") and not task.mutants:
            task.mistake = read_mutant(task, heading[len("Mistake: "):].strip(), text)
            task.mutants.append(task.mistake)
        else:
            raise WorkshopError(
                f"task {task}: {path.name}: expected 'Hint 1' to 'Hint 3', 'Mutant: …', or 'Mistake: …' before all mutants, found '{heading}'")
    if len(task.hints) != 3:
        raise WorkshopError(f"task {task}: expected three hints, found {len(task.hints)}")
    if len(task.mutants) < 2:
        raise WorkshopError(f"task {task}: expected at least two mutants, found {len(task.mutants)}")


def read_tasks(root):
    """All tasks, in order, checked. Throws WorkshopError naming the task that is not complete."""
    tasks = {}
    for pattern in SOURCES:
        for path in sorted(root.glob(pattern)):
            for task in read_regions(root, path.relative_to(root)):
                if task.name in tasks:
                    raise WorkshopError(f"task {task.name} stands twice: in {tasks[task.name].source} and in {task.source}")
                tasks[task.name] = task
    folder = root / "tests/exercises"
    texts = {}
    for path in sorted(folder.glob("*.md")):
        match = re.match(r"(\d\d)_(\d+)_", path.name)
        if not match:
            raise WorkshopError(f"{path.name}: expected a name such as 02_1_chunk_sizes.md")
        name = f"{match[1]}.{int(match[2])}"
        if name not in tasks:
            raise WorkshopError(f"task {name}: {path.name} describes it, but no source has 'BEGIN SOLUTION {name}'")
        if name in texts:
            raise WorkshopError(f"task {name} is described twice: in {texts[name].name} and in {path.name}")
        texts[name] = path
    files = {}
    for task in tasks.values():
        if task.name not in texts:
            raise WorkshopError(f"task {task}: no file tests/exercises/{task.chapter}_{task.number}_….md with its hints and mutants")
        read_text(task, texts[task.name])
        tests = "".join(path.read_text() for path in folder.glob(f"{task.chapter}_*test.cpp"))
        if f"[{task.name}]" not in tests:
            raise WorkshopError(f"task {task}: no test case in tests/exercises/{task.chapter}_*test.cpp is tagged [{task.name}]")
        key = (task.chapter, task.source.name)
        if files.setdefault(key, task.source) != task.source:
            raise WorkshopError(f"task {task}: {task.source} and {files[key]} would be the same file in the learner's folder")
        for mutant in task.mutants:
            mutated(root, task, mutant)
        learner_file(root, task.source, [task], solved=False)
    for first in tasks.values():
        for second in tasks.values():
            if first.source == second.source and first.chapter != second.chapter:
                raise WorkshopError(f"task {second}: {second.source} has tasks of chapter {first.chapter} too")
    return sorted(tasks.values(), key=lambda task: (task.chapter, task.number))


def mutated(root, task, mutant):
    """The source with a wrong solution of one task. Indentation is lost."""
    lines = (root / task.source).read_text().splitlines()
    region = "\n".join(line.strip() for line in lines[task.first + 1:task.last])
    for old, new in mutant.changes:
        if region.count(old) != 1:
            raise WorkshopError(f"task {task}: mutant '{mutant.what}': expected '{old}' once in the solution, found it {region.count(old)} times")
        region = region.replace(old, new)
    return "\n".join(lines[:task.first + 1] + [region] + lines[task.last:]) + "\n"


def with_mistake(task, lines):
    """The solution's lines with the task's mistake planted, indented as they were."""
    lines = list(lines)
    for old, new in task.mistake.changes:
        places = [number for number, line in enumerate(lines) if old in line]
        if len(places) != 1 or "\n" in new:
            raise WorkshopError(f"task {task}: a mistake changes parts of single lines, so that it does not show; found '{old}' -> '{new}'")
        lines[places[0]] = lines[places[0]].replace(old, new)
    return [line for line in lines if line.strip()]


def learner_file(root, source, tasks, solved):
    """The file that a learner gets (solved=False), or the same with the solutions."""
    lines = (root / source).read_text().splitlines()
    is_kernel = source.suffix == ".cu"
    for task in sorted((t for t in tasks if t.source == source), key=lambda t: -t.first):
        indent = re.match(r"\s*", lines[task.first])[0]
        body = lines[task.first + 1:task.last]
        if not solved:
            body = [f"{indent}// {line}".rstrip() for line in task.assignment.splitlines()]
            if task.mistake:
                body += with_mistake(task, lines[task.first + 1:task.last])
            elif is_kernel:  # a kernel cannot throw
                body.append(f'{indent}assert(!"{not_implemented(task.name)}");')
            else:
                body.append(f'{indent}throw miniddp::Error("{not_implemented(task.name)}");')
        lines[task.first:task.last + 1] = [f"{indent}// BEGIN EXERCISE {task}", *body, f"{indent}// END EXERCISE"]
    if is_kernel:
        lines.insert(next(i for i, line in enumerate(lines) if line.startswith("#include")), "#include <cassert>")
    return "\n".join(lines) + "\n"


def learner_region(text, name):
    """The learner's lines of one task, or None if its marks are gone."""
    lines, begin = text.splitlines(), None
    for number, line in enumerate(lines):
        match = LEARNER_BEGIN.match(line)
        if match and f"{match[1]}.{int(match[2])}" == name:
            begin = number
        elif LEARNER_END.match(line) and begin is not None:
            return lines[begin + 1:number]
    return None
