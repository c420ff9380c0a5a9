"""Checks of a folder of bench/faults.py after a fault."""

import shutil
from pathlib import Path

from cbir.store import Collection
from cbir.store.base import collection_folder
from cbir.store.base.schema import DATABASE
from cbir.store.erasure import find_traces
from cbir.store.records.originals import original_path
from cbir.store.records.records import hash_patient
from cbir.store.safety.last_good import NAME
from cbir.store.upkeep.restore import restore_backup
from cbir.store.upkeep.verify import verify_collection
from reliability.ledger import Ledger, Step
from reliability.workloads import (
    BACKUP,
    COLLECTION,
    IMAGES,
    PATIENTS,
    RESTORED,
    add_last,
    entry,
    image_id,
    images_of,
    working,
)

RESTORED_IMAGES = IMAGES + 2 + 4 + 2  # of the base, and those added


def check_folder(folder: Path, ledger: Ledger, done: set[str]) -> list[str]:
    """Return what is wrong in a folder after a fault.

    Parameters
    ----------
    folder : Path
        Folder of the collection and its backup.
    ledger : Ledger
        What the collection acknowledged.
    done : set of str
        Kinds of steps that were acknowledged.
    """
    others = [step for step in ledger.pending if step.kind in ("backup", "create", "log", "restore")]
    for step in others:
        ledger.pending.remove(step)
    problems = ledger.settle(folder / COLLECTION)
    problems += copy_problems(folder / COLLECTION / NAME, ledger)
    problems += original_problems(folder / COLLECTION)
    problems += backup_problems(folder / BACKUP, "backup" in done)
    problems += restored_problems(folder, "log" in done, "restore" in done)
    problems += created_problems(folder / "other", "create" in done)
    if "erase" in done:
        problems += traces(folder / COLLECTION, ledger)
    return problems


def copy_problems(copy: Path, ledger: Ledger) -> list[str]:
    """The last good copy shows no image that was deleted."""
    if not Collection.exists(copy):
        return []
    with Collection(copy) as opened:
        shown = {record.image_id for _, record in opened.iterate()} & ledger.gone
    return [f"the last good copy shows {len(shown)} deleted images"] if shown else []


def original_problems(folder: Path) -> list[str]:
    """Every uploaded image has its original."""
    with Collection(folder) as opened:
        paths = [original_path(folder, record.source) for _, record in opened.iterate()]
    missing = sum(path is not None and not path.read_bytes().startswith(b"file ") for path in paths)
    return [f"{missing} originals are damaged"] if missing else []


def backup_problems(backup: Path, done: bool) -> list[str]:
    """A backup that has its name is complete; its snapshot has to be written."""
    if not backup.exists():
        return ["the backup is missing"] if done else []
    copy = backup.with_name("copy")  # opening one changes it
    shutil.rmtree(copy, ignore_errors=True)
    with Collection(shutil.copytree(backup, copy)) as opened:
        problems = verify_collection(opened)  # of the files as they were written
        with opened.writer() as writer:
            writer.compact()
        collection_folder.update_sums(copy, leave_out=(DATABASE,))
        problems += verify_collection(opened)
        return [f"backup: {problem}" for problem in problems] + (
            [] if len(opened) == IMAGES + 2 else [f"the backup has {len(opened)} images"]
        )


def restored_problems(folder: Path, logged: bool, done: bool) -> list[str]:
    """A collection that was restored has all images, and a backup with an acknowledged log gives them."""
    target = folder / RESTORED
    if logged and not target.exists():
        restore_backup(folder / BACKUP, target)
    if not target.exists():
        return ["the restored collection is missing"] if done else []
    with Collection(target) as opened:
        problems = [f"restored: {problem}" for problem in verify_collection(opened)]
        if logged and len(opened) != RESTORED_IMAGES:
            problems.append(f"the restored collection has {len(opened)} images, not {RESTORED_IMAGES}")
    return problems + [f"restored: {problem}" for problem in original_problems(target)]


def created_problems(folder: Path, done: bool) -> list[str]:
    """A collection that was created has its image; one that was not opens, or is none."""
    if not Collection.exists(folder):
        return ["the new collection is missing"] if done else []
    with Collection(folder) as opened:
        problems = [f"new collection: {problem}" for problem in verify_collection(opened)]
        return problems + (["the new collection lost its image"] if done and len(opened) != 1 else [])


def traces(folder: Path, ledger: Ledger) -> list[str]:
    """Nothing is left of the patients whose images are all gone."""
    with Collection(folder) as opened, opened.writer():
        erased = [number for number in range(PATIENTS) if ledger.gone >= set(images_of(number))]
        keys = [hash_patient(opened.secret, f"patient-{number}") for number in erased]
        return find_traces(opened, [key for key in keys if key])


def use_again(folder: Path, ledger: Ledger) -> list[str]:
    """The collection takes another image but none that was deleted, and can be compacted."""

    def tell(word: str, step: Step) -> None:
        (ledger.begin if word == "begin" else ledger.acknowledge)(step)

    with working(folder, 0, tell) as worker:
        if image_id(999) not in ledger.labels:
            add_last(worker)
        with worker.collection.writer() as writer:
            if not ledger.gone >= set(images_of(0)):  # erasing a patient forgets what was deleted before
                writer.add([entry(0)])
            writer.compact()
    return [f"after use: {problem}" for problem in ledger.settle(folder / COLLECTION)]
