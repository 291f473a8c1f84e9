"""The learner's folder: copies of the files with tasks, and what has been done so far."""
import difflib
import json
import os
import time

from tasks import WorkshopError, learner_file, learner_region


class Workshop:
    def __init__(self, root, folder, tasks):
        self.root, self.folder, self.tasks = root, folder, tasks
        self.state_file = folder / "progress.json"
        try:
            self.state = json.loads(self.state_file.read_text())
        except FileNotFoundError:
            self.state = {}
        except ValueError as error:
            raise WorkshopError(f"{self.state_file} is damaged ({error}): remove it to begin a new record") from error
        self.state.setdefault("hints", {})
        self.state.setdefault("results", {})

    def save(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.state_file.with_suffix(".new")
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(self.state, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.state_file)

    def chapter_folder(self, chapter):
        name = next(path.name for path in sorted((self.root / "chapters").glob(f"{chapter}_*")) if path.is_dir())
        return self.folder / name

    def of_chapter(self, chapter):
        return [task for task in self.tasks if task.chapter == chapter]

    def file_of(self, task):
        return self.chapter_folder(task.chapter) / task.source.name

    def region_of(self, task):
        """The learner's lines of a task, or None if its marks are gone."""
        path = self.file_of(task)
        lines = learner_region(path.read_text(errors="replace"), task.name) if path.is_file() else None
        return None if lines is None else "\n".join(lines)

    def require_started(self, chapter):
        folder = self.chapter_folder(chapter)
        missing = [task.source.name for task in self.of_chapter(chapter) if not self.file_of(task).is_file()]
        if not folder.is_dir():
            raise WorkshopError(f"chapter {chapter} has not been started: ./tutorial start {chapter}")
        if missing:
            raise WorkshopError(f"{folder} lacks {missing[0]}: ./tutorial start {chapter} --force begins anew and keeps a backup")

    def start(self, chapter, force, mine):
        """Writes the starters. Returns the folder and the backup of an older one, if there was one."""
        folder, backup = self.chapter_folder(chapter), None
        if folder.exists() and not force:
            raise WorkshopError(f"{folder} exists already and is left as it is: --force begins anew and keeps a backup")
        if folder.exists():
            backup = self.folder / "backup" / time.strftime(f"{folder.name}-%Y%m%d-%H%M%S")
            number = 1
            while backup.exists():
                number += 1
                backup = backup.with_name(f"{backup.name.rstrip('0123456789').rstrip('.')}.{number}")
            backup.parent.mkdir(parents=True, exist_ok=True)
            os.replace(folder, backup)
        unfinished = folder.with_name(f".{folder.name}.new")
        unfinished.mkdir(parents=True, exist_ok=True)
        for source in sorted({task.source for task in self.of_chapter(chapter)}):
            (unfinished / source.name).write_text(learner_file(self.root, source, self.tasks, solved=False))
        if mine:
            (unfinished / "uses_mine").write_text("check builds this chapter on your own files of the chapters before it.\n")
        os.replace(unfinished, folder)
        for task in self.of_chapter(chapter):
            self.state["hints"].pop(task.name, None)
            self.state["results"].pop(task.name, None)
        self.save()
        return folder, backup

    def next_hint(self, task):
        """(number, text) of the next hint; after the third, the third again."""
        number = min(self.state["hints"].get(task.name, 0) + 1, len(task.hints))
        self.state["hints"][task.name] = number
        self.save()
        return number, task.hints[number - 1]

    def difference(self, task):
        """Lines of a diff from the learner's code to the solution."""
        solution = learner_file(self.root, task.source, self.tasks, solved=True)
        path = self.file_of(task)
        mine = path.read_text() if path.exists() else learner_file(self.root, task.source, self.tasks, solved=False)
        ours, theirs = learner_region(solution, task.name), learner_region(mine, task.name)
        if theirs is None:  # the marks are gone: compare the whole file
            ours, theirs = solution.splitlines(), mine.splitlines()
        return list(difflib.unified_diff(theirs, ours, "yours", "solution", lineterm="", n=3))
