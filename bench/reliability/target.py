"""Base of everything that bench/kills.py kills."""

import itertools
import random
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from reliability.forked import ForkedCommands
from reliability.ledger import Ledger
from reliability.pictures import PictureFolder

LARGEST = 300  # images in a collection; then the target starts again with a small one


class Target(ABC):
    """A collection, and a way to work on it that can be killed.

    Parameters
    ----------
    folder : Path
        Empty folder for everything of this target.
    base : Path
        Collection to start with, and the manifest of its pictures beside it; None to start with none.
    pictures : PictureFolder
        Pictures of the base.
    """

    name: str
    killed = False  # in the last round, at work: not before, and not after its end

    def __init__(self, folder: Path, base: Path, pictures: PictureFolder) -> None:
        self.folder, self.base, self.pictures = folder, base, pictures
        self.collection = folder / "collection"
        self.numbers = itertools.count(1_000_000)
        self.ledger = Ledger()
        self.figures: dict[str, float] = {}  # of the last round, for the record
        self.start_again()

    def start_again(self) -> None:
        """Begin with a copy of the base collection."""
        shutil.rmtree(self.collection, ignore_errors=True)
        shutil.copytree(self.base, self.collection)
        labels: dict[str, str | None] = {
            self.pictures.id_of(name): self.pictures.values[name] for name in self.pictures.numbers
        }
        self.ledger.labels, self.ledger.gone = labels, set()

    def close(self) -> None:  # noqa: B027 - most start nothing
        """Stop what the target has started for all rounds."""

    def kill_once(self, rng: random.Random) -> list[str]:
        """Work, be killed at a random moment, and return what is wrong afterwards."""
        if len(self.ledger.labels) > LARGEST:
            self.start_again()
        self.work(rng)
        return self.ledger.settle(self.collection) + self.check(rng)

    def kill(self, running: ForkedCommands) -> str:
        """Kill commands, note whether they were at work on the collection, and return what they have printed."""
        at_work = running.uses(self.collection)
        output = running.kill()
        self.killed = at_work and len(exit_codes(output)) < running.count
        return output

    @abstractmethod
    def work(self, rng: random.Random) -> None:
        """Start processes and kill them at a random moment; book in the ledger what they acknowledge."""

    def check(self, rng: random.Random) -> list[str]:
        """Return further problems of the collection after the kill."""
        return []


def run_to_end(commands: Sequence[Sequence[str]]) -> list[int]:
    """Run commands one after the other up to the first that fails; return their exit codes."""
    with ForkedCommands(commands) as running:
        return exit_codes(running.read_until("no such line", 120))


def exit_codes(output: str) -> list[int]:
    """Return the exit codes in the output of ForkedCommands."""
    lines = (line.removeprefix("exit ") for line in output.splitlines() if line.startswith("exit "))
    return [int(code) if code.isdigit() else 1 for code in lines]
