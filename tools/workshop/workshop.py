#!/usr/bin/env python3
"""The workshop's commands, called by ./tutorial and by the build. Exit status: 0 all well, 1 not, 2 wrong usage."""
import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from generate import generate  # noqa: E402
from learner import Workshop  # noqa: E402
from run import FAILED, MISSING, NOT_FOUND, PASSED, WAITING, Outcome, check_task  # noqa: E402
from tasks import WorkshopError, learner_file, learner_region, not_implemented, read_tasks  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent


class UsageError(WorkshopError):
    pass


def select(tasks, chapter, number):
    """The tasks that NN, NN.k or NN k mean."""
    if "." in chapter and number is None:
        chapter, number = chapter.split(".", 1)
    if not chapter.isdigit() or (number is not None and not str(number).isdigit()):
        raise UsageError(f"expected a chapter such as 02, or a task such as 02.1, found '{chapter}{'' if number is None else ' ' + str(number)}'")
    chapter = f"{int(chapter):02d}"
    of_chapter = [task for task in tasks if task.chapter == chapter]
    if not of_chapter:
        known = ", ".join(sorted({task.chapter for task in tasks}))
        raise UsageError(f"chapter {chapter} has no tasks; these have: {known}")
    if number is None:
        return of_chapter
    chosen = [task for task in of_chapter if task.number == int(number)]
    if not chosen:
        raise UsageError(f"chapter {chapter} has no task {number}; it has {', '.join(task.name for task in of_chapter)}")
    return chosen


def indented(text, by="      "):
    return "\n".join(by + line for line in text.splitlines())


def check_all(workshop, program, tasks):
    """Prints a line for each task, and what is wrong. True if all passed."""
    outcomes = []
    for task in tasks:
        region = workshop.region_of(task)
        if region is None:  # without the learner's function the project's own would be linked, and pass
            outcome = Outcome(FAILED, f"failed: {shown(workshop.file_of(task))} has lost the line '// BEGIN EXERCISE {task}' or the "
                                      "'// END EXERCISE' after it: put them back around your code")
        else:
            outcome = check_task(program, task, region)
        outcomes.append(outcome)
        first, *more = outcome.text.splitlines()
        print(f"  {task}: {first}", *map(lambda line: "      " + line, more), sep="\n", flush=True)
        workshop.state["results"][task.name] = outcome.state
    return all(outcome.state == PASSED for outcome in outcomes)


def command_start(workshop, arguments):
    tasks = select(workshop.tasks, arguments.chapter, None)
    folder, backup = workshop.start(tasks[0].chapter, arguments.force, arguments.mine)
    if backup:
        print(f"Your old files are in {shown(backup)}")
    print(f"Your files are in {shown(folder)}. Look for BEGIN EXERCISE in them:")
    for task in tasks:
        print(f"  {task}  ({task.source.name})")
    print(f"./tutorial check {tasks[0].chapter} says how far you are, ./tutorial hint {tasks[0].name} helps.")
    return 0


def shown(path):
    try:
        return path.relative_to(ROOT)
    except ValueError:
        return path


def command_check(workshop, arguments):
    tasks = select(workshop.tasks, arguments.chapter, arguments.task)
    workshop.require_started(tasks[0].chapter)
    passed = check_all(workshop, arguments.program, tasks)
    workshop.save()
    states = workshop.state["results"]
    if passed:
        print("All passed." if len(tasks) > 1 else "Passed.")
        return 0
    needs_help = next(task for task in tasks if states[task.name] != PASSED)
    print(f"Next: {needs_help}. A hint: ./tutorial hint {needs_help.name}")
    return 1


def command_started(workshop, arguments):
    """For ./tutorial: is there anything to build? Prints the chapter's number."""
    tasks = select(workshop.tasks, arguments.chapter, arguments.task)
    workshop.require_started(tasks[0].chapter)
    print(tasks[0].chapter)
    return 0


def command_hint(workshop, arguments):
    tasks = select(workshop.tasks, arguments.chapter, arguments.task)
    open_tasks = [task for task in tasks if workshop.state["results"].get(task.name) != PASSED]
    task = (open_tasks or tasks)[0]
    number, text = workshop.next_hint(task)
    print(f"{task}, hint {number} of {len(task.hints)}:\n\n{indented(text, '  ')}\n")
    if number == len(task.hints):
        print(f"That was the last one. The solution: ./tutorial solution {task.name}")
    return 0


def command_solution(workshop, arguments):
    tasks = select(workshop.tasks, arguments.chapter, arguments.task)
    if not arguments.yes:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError("solution asks before it shows anything; without a terminal say --yes")
        try:
            answer = input(f"Show the solution of {', '.join(task.name for task in tasks)}? [y/N] ")
        except EOFError:
            answer = ""
        if not answer.strip().lower().startswith("y"):
            print("Not shown. ./tutorial hint gives a hint.")
            return 1
    for task in tasks:
        lines = workshop.difference(task)
        print(f"{task} ({shown(workshop.file_of(task))}): - is yours, + is the solution")
        print("\n".join(lines[2:]) if lines else "  yours is the solution, letter for letter")
    return 0


def command_progress(workshop, _):
    states, hints = workshop.state["results"], workshop.state["hints"]
    for task in workshop.tasks:
        state = states.get(task.name, "not checked yet" if workshop.file_of(task).exists() else "not started")
        used = hints.get(task.name, 0)
        print(f"  {task}: {state}" + (f" ({used} hint{'s' if used > 1 else ''} used)" if used else ""))
    passed = sum(states.get(task.name) == PASSED for task in workshop.tasks)
    print(f"{passed} of {len(workshop.tasks)} tasks passed.")
    return 0


def command_generate(_, arguments):
    generate(ROOT, arguments.out)
    return 0


def command_prove(workshop, arguments):
    """For one task: the starter says that it is not implemented (or that the mistake is not found), the solution passes, every mutant fails."""
    [task] = select(workshop.tasks, arguments.chapter, None)
    well = True

    def expect(condition, text):
        nonlocal well
        print(("ok      " if condition else "WRONG   ") + text, flush=True)
        well = well and condition

    bin_folder = arguments.bin
    starter = "\n".join(learner_region(learner_file(ROOT, task.source, workshop.tasks, solved=False), task.name))
    outcome = check_task(bin_folder / f"exercise_{task.chapter}_starter", task, starter)
    if task.mistake:  # its run may need tasks that are not done
        expect(outcome.state in (WAITING, NOT_FOUND), f"untouched starter: {outcome.text}")
    else:
        expect(outcome.text == MISSING, f"untouched starter: {outcome.text}")
    outcome = check_task(bin_folder / f"exercise_{task.chapter}_solution", task)
    expect(outcome.state == PASSED, f"solution: {outcome.text}")
    killed = 0
    for number, mutant in enumerate(task.mutants, 1):
        outcome = check_task(bin_folder / f"exercise_{task.name}_mutant_{number}", task)
        expect(outcome.state in (NOT_FOUND, FAILED), f"mutant '{mutant.what}': {outcome.text}")
        killed += outcome.state in (NOT_FOUND, FAILED)
    print(f"{task}: {killed} of {len(task.mutants)} mutants killed")
    arguments.results.mkdir(parents=True, exist_ok=True)
    (arguments.results / task.name).write_text(f"{killed} {len(task.mutants)}\n")
    return 0 if well else 1


def command_kill_rate(workshop, arguments):
    """After prove of all tasks."""
    killed = mutants = 0
    for task in workshop.tasks:
        try:
            of_task = [int(word) for word in (arguments.results / task.name).read_text().split()]
        except FileNotFoundError as error:
            raise WorkshopError(f"task {task} was not tried") from error
        if of_task[0] < len(task.mutants):
            print(f"  {task}: {of_task[0]} of {len(task.mutants)}")
        killed += of_task[0]
        mutants += len(task.mutants)
    print(f"{len(workshop.tasks)} tasks; {killed} of {mutants} mutants killed ({100 * killed / mutants:.0f}%)")
    return 0 if killed == mutants else 1


def parser():
    result = argparse.ArgumentParser(prog="./tutorial", add_help=False)
    result.add_argument("--workshop", type=Path, default=ROOT / "workshop")
    commands = result.add_subparsers(dest="command", required=True)

    def add(name, function, *, task=True, chapter=True):
        command = commands.add_parser(name, prog=f"./tutorial {name}", add_help=False)
        command.set_defaults(function=function)
        if chapter:
            command.add_argument("chapter")
        if task:
            command.add_argument("task", nargs="?")
        return command

    start = add("start", command_start, task=False)
    start.add_argument("--force", action="store_true")
    start.add_argument("--mine", action="store_true")
    add("started", command_started)
    add("check", command_check).add_argument("--program", type=Path, required=True)
    add("hint", command_hint)
    add("solution", command_solution).add_argument("--yes", action="store_true")
    add("progress", command_progress, task=False, chapter=False)
    add("generate", command_generate, task=False, chapter=False).add_argument("out", type=Path)
    prove = add("prove", command_prove, task=False)
    prove.add_argument("--bin", type=Path, required=True)
    prove.add_argument("--results", type=Path, required=True)
    add("kill_rate", command_kill_rate, task=False, chapter=False).add_argument("--results", type=Path, required=True)
    return result


def main():
    arguments = parser().parse_args()
    try:
        tasks = read_tasks(ROOT)
        status = arguments.function(Workshop(ROOT, arguments.workshop, tasks), arguments)
        sys.stdout.flush()
        return status
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # as of `| head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (WorkshopError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
