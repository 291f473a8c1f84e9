"""What the build of the exercises needs: starters, mutants, and a list of them for CMake."""
from tasks import learner_file, mutated, read_tasks


def write_if_changed(path, text):
    """Nothing is compiled again that is as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def generate(root, out):
    """out/starter/NN/FILE, out/mutant/NN.k.i/FILE, and out/tasks.cmake."""
    tasks = read_tasks(root)
    chapters = sorted({task.chapter for task in tasks})
    lines = [f"set(exercise_chapters {' '.join(chapters)})"]
    for chapter in chapters:
        of_chapter = [task for task in tasks if task.chapter == chapter]
        sources = sorted({task.source for task in of_chapter})
        for source in sources:
            write_if_changed(out / "starter" / chapter / source.name, learner_file(root, source, tasks, solved=False))
        lines.append(f"set(exercise_{chapter}_tasks {' '.join(task.name for task in of_chapter)})")
        lines.append(f"set(exercise_{chapter}_files {' '.join(source.name for source in sources)})")
    for task in tasks:
        lines.append(f"set(exercise_{task.name}_title \"{task.title}\")")
        lines.append(f"set(exercise_{task.name}_file {task.source.name})")
        lines.append(f"set(exercise_{task.name}_mutants {' '.join(str(i + 1) for i in range(len(task.mutants)))})")
        for number, mutant in enumerate(task.mutants, 1):
            write_if_changed(out / "mutant" / f"{task.name}.{number}" / task.source.name, mutated(root, task, mutant))
    lines.append("set(exercise_inputs " + " ".join(sorted({task.source.as_posix() for task in tasks})) + ")")
    write_if_changed(out / "tasks.cmake", "\n".join(lines) + "\n")
