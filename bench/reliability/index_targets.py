"""`cbir index`: of new pictures into a new collection, and again after pictures and labels have changed."""

import json
import random
import shutil
import time

from cbir.store import Collection
from reliability.forked import ForkedCommands
from reliability.ledger import Step
from reliability.pictures import PATIENTS, PictureFolder
from reliability.target import Target, exit_codes, run_to_end

PICTURES = 40
LONGEST_SECONDS = 3.0
ERASED_SHARE = 0.2  # of the rounds
COMPLETE_SHARE = 0.3  # of the runs over changed files are followed by one to the end
LAST = 4  # an index that was killed so often runs to its end


class IndexTarget(Target):
    """A folder is indexed, killed, and the command repeated until it comes to its end."""

    name = "index"

    def start_again(self) -> None:
        """Begin without a collection, and with other pictures."""
        shutil.rmtree(self.folder / "pictures", ignore_errors=True)
        shutil.rmtree(self.collection, ignore_errors=True)
        self.own = PictureFolder(self.folder / "pictures", PICTURES, self.numbers)
        self.ledger.labels, self.ledger.gone = {}, set()
        self.kills = 0

    def command(self) -> list[str]:
        """Return the arguments of the command."""
        options = [
            "--collection",
            str(self.collection),
            "--labels",
            str(self.own.manifest),
            "--profile",
            "huang2012",
        ]
        return ["index", str(self.own.folder), *options, "--jobs", "1", "--progress", "json"]

    def work(self, rng: random.Random) -> None:
        """Kill a run; it acknowledges files by its progress."""
        for name in self.own.numbers:
            self.ledger.begin(Step("add", (self.own.id_of(name),), self.own.values[name]))
        self.kills += 1
        with ForkedCommands([self.command()]) as running:
            if self.kills < LAST:
                time.sleep(rng.uniform(0, LONGEST_SECONDS))
                output = self.kill(running)
            else:
                output = running.read_until("\nexit ", 120)
        self.codes, self.done = exit_codes(output), progress(output)

    def kill_once(self, rng: random.Random) -> list[str]:
        """Count an interrupted creation as no collection."""
        self.work(rng)
        if not Collection.exists(self.collection):
            self.ledger.pending.clear()
            return ["a finished run left no collection"] if self.done or self.codes else []
        return self.ledger.settle(self.collection) + self.check(rng)

    def check(self, rng: random.Random) -> list[str]:
        """All files that were counted as done are there; all files, if the run came to its end."""
        stored, done = len(self.ledger.labels), self.done
        self.ledger.acknowledged["add"] += done
        problems = [f"a run ended with {code}" for code in self.codes if code]
        if stored < done:
            problems.append(f"{stored} images are stored of {done} acknowledged")
        if self.codes:
            if stored != PICTURES:
                problems.append(f"{stored} images are stored of {PICTURES}")
            self.start_again()
        return problems


class ReindexTarget(Target):
    """Pictures change, some images are deleted or a patient is erased; then the folder is indexed again."""

    name = "re-index"

    def start_again(self) -> None:
        """Begin with pictures of its own, indexed."""
        self.ledger.labels, self.ledger.gone = {}, set()
        shutil.rmtree(self.folder / "pictures", ignore_errors=True)
        shutil.rmtree(self.collection, ignore_errors=True)
        self.own = PictureFolder(self.folder / "pictures", PICTURES, self.numbers)
        if run_to_end([self.command()]) != [0]:
            raise RuntimeError("the pictures cannot be indexed")
        self.ledger.labels = {self.own.id_of(name): self.own.values[name] for name in self.own.numbers}
        self.shown = {name: self.own.id_of(name) for name in self.own.numbers}
        self.erased: set[str] = set()

    def command(self) -> list[str]:
        """Return the arguments of the command."""
        options = [
            "--collection",
            str(self.collection),
            "--labels",
            str(self.own.manifest),
            "--profile",
            "huang2012",
        ]
        return ["index", str(self.own.folder), *options, "--jobs", "1", "--progress", "json"]

    def work(self, rng: random.Random) -> None:
        """Change a few files, labels and images, and kill the run that follows."""
        names = [name for name in self.own.numbers if self.own.id_of(name) in self.ledger.labels]
        if len(names) < 12:
            self.start_again()
            names = list(self.own.numbers)
        folder = ["--collection", str(self.collection)]
        chosen = rng.sample(names, 8)
        deleted = [self.own.id_of(name) for name in chosen[:2]]
        if run_to_end([["collection", "delete", "--yes", *deleted, *folder]]) != [0]:
            raise RuntimeError("images cannot be deleted")
        self.ledger.begin(Step("delete", tuple(deleted)))
        self.ledger.acknowledge(Step("delete", tuple(deleted)))
        if rng.random() < ERASED_SHARE:
            self.erase(rng.randrange(PATIENTS))
        chosen = [name for name in chosen if self.own.id_of(name) in self.ledger.labels]
        for name in chosen[:3]:
            self.own.redraw(name)
        for name in chosen:
            self.own.values[name] = str(rng.randrange(10**9))
        self.own.write_manifest()
        self.begin()
        with ForkedCommands([self.command()]) as running:
            time.sleep(rng.uniform(0, LONGEST_SECONDS))
            self.codes = exit_codes(self.kill(running))

    def erase(self, patient: int) -> None:
        """Erase a patient, whose files stay where they are."""
        names = [name for name in self.own.numbers if self.own.patient(name) == f"patient-{patient}"]
        ids = tuple(self.shown[name] for name in names if self.shown[name] in self.ledger.labels)
        command = [
            "collection",
            "erase-patient",
            "--yes",
            f"patient-{patient}",
            "--collection",
            str(self.collection),
        ]
        self.ledger.begin(Step("erase", ids))
        if run_to_end([command]) not in ([0], [1]):  # 1: the patient has no image left
            raise RuntimeError("the patient cannot be erased")
        self.ledger.acknowledge(Step("erase", ids))
        self.erased.update(ids)

    def begin(self) -> None:
        """Record what a run has to do: what the last one left, too."""
        for name, value in self.own.values.items():
            image_id = self.own.id_of(name)
            if image_id not in self.ledger.labels and image_id not in self.ledger.gone:
                if self.shown[name] in self.ledger.labels:
                    self.ledger.begin(Step("delete", (self.shown[name],)))
                self.ledger.begin(Step("add", (image_id,), value))
            elif self.ledger.labels.get(image_id, value) != value:
                self.ledger.begin(Step("label", (image_id,), value))

    def check(self, rng: random.Random) -> list[str]:
        """Every changed file shows its old or its new image; a second run brings the new ones alone."""
        problems = [f"a run ended with {code}" for code in self.codes if code] + self.show()
        if rng.random() < COMPLETE_SHARE:
            self.begin()
            if run_to_end([self.command()]) != [0]:
                problems.append("the run after the kill fails")
            problems += self.ledger.settle(self.collection) + self.show()
            names = [name for name in self.own.numbers if self.own.id_of(name) not in self.ledger.gone]
            if self.ledger.labels != {self.own.id_of(name): self.own.values[name] for name in names}:
                problems.append("a complete run leaves other images or labels than those of the files")
        return problems

    def show(self) -> list[str]:
        """Note which image of each file is there; return a problem if both are, or none."""
        problems = []
        for name, old in self.shown.items():
            new = self.own.id_of(name)
            both_or_none = (old in self.ledger.labels) == (new in self.ledger.labels)
            if new != old and old not in self.erased and both_or_none:
                problems.append("a changed file shows both of its images, or none")
            if new in self.ledger.labels:
                self.shown[name] = new
        return problems


def progress(output: str) -> int:
    """Return the number of files done in the last line of progress."""
    done = 0
    for line in output.splitlines():
        if line.startswith('{"done"'):
            done = int(json.loads(line)["done"])
    return done
