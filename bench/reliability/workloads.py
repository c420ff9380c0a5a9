"""Operations of a collection that write, to be run while calls of the system fail."""

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cbir.ingest.description import DescribedFile
from cbir.ingest.intake_check import ReceivedFile, add_received_files
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.records import originals
from cbir.store.records.add_transaction import StoredReply
from cbir.store.records.records import Entry, Record, hash_patient
from cbir.store.upkeep.backup import back_up_collection
from cbir.store.upkeep.backup_log import append_log
from cbir.store.upkeep.restore import open_or_fallback, restore_backup
from cbir.store.writing.writer import Writer
from reliability.ledger import LABEL, Ledger, Step

IMAGES = 12
PATIENTS = 3
COLLECTION, BACKUP, RESTORED = "collection", "backup", "restored"
PROFILE = "tamura"
Operation = Callable[["Worker"], None]


def upload(number: int, patient: str | None = None) -> ReceivedFile:
    """Return a file that was sent, described; its image has id `image_id(number)`."""
    data = f"file {number}".encode()
    record, vector = entry(number, patient)
    record = replace(record, source=originals.source_of(data))
    return ReceivedFile(data, DescribedFile((record,), (vector,), (b"thumbnail" * 20,)))


def image_id(number: int) -> str:
    """Return the id of image `number`."""
    return f"{number:032x}"


def images_of(patient: int) -> list[str]:
    """Return the ids of the images of a patient that `make_base` leaves."""
    return [image_id(number) for number in range(1, IMAGES + 3) if number % PATIENTS == patient]


def entry(number: int, patient: str | None = None, value: str = "first") -> Entry:
    """Return a record and a vector; the record has a source outside the collection."""
    record = Record(
        content_hash=image_id(number),
        source=f"/images/{number}.png",
        source_stamp="1",
        format="png",
        width=10,
        height=20,
        patient_key=patient,
        labels={LABEL: value},
    )
    return record, np.random.default_rng(number).normal(5.0, 2.0, 6).astype(np.float32)


def make_base(folder: Path) -> None:
    """Create the collection that every workload begins with: some images are uploads, one is deleted."""
    created = Collection.create(folder / COLLECTION, profiles.get(PROFILE))
    with created as collection, collection.writer() as writer:
        keys = [hash_patient(collection.secret, f"patient-{number}") for number in range(PATIENTS)]
        writer.add([entry(number, keys[number % PATIENTS]) for number in range(IMAGES)])
        files = [upload(number, keys[number % PATIENTS]) for number in range(IMAGES, IMAGES + 3)]
        add_received_files(writer, files, keep_originals=True)
        writer.compact()
        writer.delete([image_id(0)])


def base_ledger() -> Ledger:
    """Return what `make_base` acknowledged."""
    return Ledger({image_id(number): "first" for number in range(1, IMAGES + 3)}, {image_id(0)})


@dataclass
class Worker:
    """The working side: an open collection, and `tell`, which reports each step before and after it."""

    folder: Path
    collection: Collection
    tell: Callable[[str, Step], None]
    rng: random.Random

    def step(
        self, kind: str, ids: list[str], act: Callable[[Writer], object], value: str | None = None
    ) -> None:
        """Do a step with the writer."""
        step = Step(kind, tuple(ids), value)
        with self.collection.writer() as writer:
            self.tell("begin", step)
            act(writer)
            self.tell("done", step)

    def some(self, count: int) -> list[str]:
        """Return ids of images that are there."""
        return [image_id(number) for number in self.rng.sample(range(1, IMAGES + 3), count)]


def add(worker: Worker) -> None:
    """Add a batch, as indexing does."""
    numbers = range(100, 104)
    worker.step(
        "add",
        [image_id(n) for n in numbers],
        lambda writer: writer.add([entry(n, value="new") for n in numbers]),
        "new",
    )


def receive(worker: Worker) -> None:
    """Add files that were sent, with originals, thumbnails and the reply to repeat."""
    numbers = range(200, 202)
    worker.step(
        "add",
        [image_id(n) for n in numbers],
        lambda writer: add_received_files(
            writer,
            [upload(n) for n in numbers],
            keep_originals=True,
            in_transaction=lambda transaction, _: transaction.store_reply(
                "key", StoredReply("hash", 201, "{}")
            ),
        ),
        "first",
    )


def delete(worker: Worker) -> None:
    """Delete images, uploads among them."""
    ids = [*worker.some(2), image_id(IMAGES + worker.rng.randrange(3))]
    worker.step("delete", sorted(set(ids)), lambda writer: writer.delete(sorted(set(ids))))


def label(worker: Worker) -> None:
    """Set labels of one image, then of several."""
    first, *others = worker.some(4)
    worker.step("label", [first], lambda writer: writer.set_labels(first, {LABEL: "second"}), "second")
    values = dict.fromkeys(others, "third")
    worker.step("label", others, lambda writer: writer.label_images(LABEL, values), "third")


def finish(worker: Worker) -> None:
    """Add so much that the end of an indexing run writes a snapshot."""
    add(worker)
    worker.step("add", [], lambda writer: writer.finish())


def compact(worker: Worker) -> None:
    """Rebuild what is derived from the database."""
    refit = worker.rng.random() < 0.5
    worker.step("delete", [], lambda writer: writer.compact(refit))


def erase(worker: Worker) -> None:
    """Erase a patient."""
    number = worker.rng.randrange(PATIENTS)
    key = hash_patient(worker.collection.secret, f"patient-{number}")
    worker.step("erase", images_of(number), lambda writer: writer.erase_patient([str(key)]))


def reindex(worker: Worker) -> None:
    """Index files that have changed: one shows its image with another label, the other a new image."""
    record, vector = entry(1, value="second")
    other, other_vector = entry(300, value="new")
    entries = [
        (replace(record, source_stamp="2"), vector),
        (replace(other, source="/images/2.png", source_stamp="2"), other_vector),
    ]
    steps = (
        Step("label", (image_id(1),), "second"),
        Step("delete", (image_id(2),)),
        Step("add", (image_id(300),), "new"),
    )
    with worker.collection.writer() as writer:
        for step in steps:
            worker.tell("begin", step)
        writer.add(entries)
        for step in steps:
            worker.tell("done", step)


def backup(worker: Worker) -> None:
    """Back up the collection."""
    shutil.rmtree(worker.folder / BACKUP, ignore_errors=True)
    worker.tell("begin", Step("backup", ()))
    back_up_collection(worker.collection, worker.folder / BACKUP)
    worker.tell("done", Step("backup", ()))


def restore(worker: Worker) -> None:
    """Back up, add images and an original, log them, and restore the backup with its log."""
    folder = worker.folder / BACKUP
    back_up_collection(worker.collection, folder, log=True)
    add(worker)
    receive(worker)
    worker.tell("begin", Step("log", ()))
    append_log(worker.collection, folder)
    worker.tell("done", Step("log", ()))
    worker.tell("begin", Step("restore", ()))
    restore_backup(folder, worker.folder / RESTORED)
    worker.tell("done", Step("restore", ()))


def create(worker: Worker) -> None:
    """Create another collection, and open it."""
    worker.tell("begin", Step("create", ()))
    with Collection.create(worker.folder / "other", profiles.get(PROFILE)) as other, other.writer() as writer:
        writer.add([entry(1)])
        writer.finish()
    worker.tell("done", Step("create", ()))


OPERATIONS: dict[str, Operation] = {
    operation.__name__: operation
    for operation in (add, receive, delete, label, finish, compact, erase, reindex, backup, restore, create)
}


@contextmanager
def working(folder: Path, seed: int, tell: Callable[[str, Step], None]) -> Iterator[Worker]:
    """Open the collection in a folder that `make_base` filled.

    Parameters
    ----------
    folder : Path
        The folder.
    seed : int
        Of the choices that operations make.
    tell : callable
        Called with "begin" or "done", and each step.
    """
    with open_or_fallback(folder / COLLECTION) as collection:
        yield Worker(folder, collection, tell, random.Random(seed))


def add_last(worker: Worker) -> None:
    """Add an image after everything else."""
    worker.step("add", [image_id(999)], lambda writer: writer.add([entry(999)]), "first")
