"""Intake of files that were sent: the check, which adds findings and sets images aside, and their storage."""

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Literal

from cbir.errors import InvalidInput
from cbir.ingest.description import DescribedFile
from cbir.store import Collection
from cbir.store.records import originals
from cbir.store.records.add_transaction import Added, AddTransaction
from cbir.store.records.record_queries import RecordQueries
from cbir.store.records.records import FINDINGS_LABEL, Entry
from cbir.store.writing.writer import Writer
from cbir.system.remedies import install_command

if TYPE_CHECKING:
    from cbir.ingest.collection_check import CollectionCheck

Intake = Literal["accept", "flag", "quarantine"]
RENEWED = 2  # times as many images in the collection: then it is compared with anew
STATISTICS_IMAGES = 256  # images in a collection before its first statistics are computed on the fly


def require_packages(intake: str) -> None:
    """Raise InvalidInput with the remedy if images are to be checked, and a package or its weights are missing.

    intake: the setting.
    """
    if intake != "accept":
        from cbir.ingest.burned_in_text import reader_path  # not imported where nothing is checked

        reader_path()
        if find_spec("simplejpeg") is None:
            raise InvalidInput(f"the intake check needs simplejpeg: {install_command('intake')}")


class IntakeCheck:
    """Checks the images of one collection as the setting `intake` says; with "accept" it does nothing.

    It does not keep the collection open. Raises InvalidInput if a package is missing.
    """

    def __init__(self, collection: Collection, intake: Intake) -> None:
        require_packages(intake)
        self._collection, self._intake = weakref.ref(collection), intake
        self._check: CollectionCheck | None = None
        self._images = 0
        self._lock = Lock()  # PostgreSQL lets several threads write

    def check(self, writer: Writer, entries: Sequence[Entry], files: Sequence[DescribedFile]) -> list[Entry]:
        """Return the entries of `files` with their findings, and let `writer` hold those that have some.

        Parameters
        ----------
        writer : Writer
            Adds the entries next.
        entries : sequence of (Record, (d,) float32)
            Entries of the files, in their order, with labels.
        files : sequence of DescribedFile
            Described with `check_intake`, unless the setting is "accept".
        """
        if self._intake == "accept":
            return list(entries)
        inverted = [vector for file in files for vector in file.inverted or [None] * len(file.records)]
        checked = self._current().check(entries, inverted)
        if self._intake == "quarantine":
            pictures = (
                (record.content_hash, picture)
                for file in files
                for record, picture in zip(file.records, file.thumbnails, strict=False)
            )
            writer.held_pictures = dict(pictures)
        return checked

    def count_flagged(self, entries: Sequence[Entry], added: Added) -> int:
        """Return the number of images that were added with a finding."""
        if self._intake == "accept":
            return 0
        outcomes = zip(entries, added.outcomes, strict=True)
        return sum(FINDINGS_LABEL in record.labels and kind == "added" for (record, _), (kind, _) in outcomes)

    def _current(self) -> "CollectionCheck":
        from cbir.ingest.collection_check import (
            CollectionCheck,  # not imported where nothing is checked
        )

        collection = self._collection()
        assert collection is not None, "the caller writes to it"
        with self._lock:
            images = len(collection)
            if self._check is None or images >= RENEWED * self._images:
                self._check, self._images = CollectionCheck(collection), max(images, 1)
            return self._check


@dataclass(frozen=True, eq=False)
class ReceivedFile:
    """The bytes of a file and its description."""

    data: bytes
    description: DescribedFile

    @property
    def refused(self) -> str | None:
        """Reason why the file has no images; None if it has."""
        return self.description.refused


def select_new_instances(uids: Sequence[str], existing: Iterable[str]) -> list[bool]:
    """Flag the SOP Instance UIDs to add: those that are not in `existing`, and each of them once."""
    seen = set(existing)
    flags = []
    for uid in uids:
        flags.append(uid not in seen)
        seen.add(uid)
    return flags


def with_other_pictures(collection: RecordQueries, files: Sequence[ReceivedFile]) -> list[bool]:
    """Flag the `files` that show another picture than the collection has under their SOP Instance UID."""
    records = [record for file in files for record in file.description.records]
    others = collection.other_pictures(records) if records else set()
    return [
        any((record.instance, record.content_hash) in others for record in file.description.records)
        for file in files
    ]


def add_received_files(
    writer: Writer,
    files: Sequence[ReceivedFile],
    *,
    keep_originals: bool,
    duplicates: bool = False,
    restore: bool = False,
    replaces: Sequence[str] = (),
    in_transaction: Callable[[AddTransaction, Added], None] | None = None,
    intake: IntakeCheck | None = None,
) -> Added:
    """Add the images of files in one transaction, with the thumbnails of those that are new.

    Parameters
    ----------
    writer : Writer
        Writing side of the collection.
    files : sequence of ReceivedFile
        Described files; refused ones have no images.
    keep_originals : bool
        Store the files of new images too.
    duplicates : bool
        Add pictures that the collection has already.
    restore : bool
        Add pictures that were deleted earlier.
    replaces : sequence of str
        Ids of images that are deleted first, in the same transaction.
    in_transaction : callable, optional
        Further writes of the same transaction.
    intake : IntakeCheck, optional
        Finds and holds images that do not fit.

    Returns
    -------
    Added
        Outcome of every image, in the order of the files.
    """

    def attach(transaction: AddTransaction, added: Added) -> None:
        outcomes = iter(added.outcomes)
        thumbnails, kept = {}, set()
        for file in files:
            file_outcomes = [next(outcomes) for _ in file.description.records]
            new_ids = [image_id if outcome == "added" else None for outcome, image_id in file_outcomes]
            is_held = any(outcome == "quarantined" for outcome, _ in file_outcomes)
            for image_id, thumbnail in zip(new_ids, file.description.thumbnails, strict=False):
                if image_id:
                    thumbnails[added.numbers[image_id]] = thumbnail
            if keep_originals and (any(new_ids) or is_held):
                kept.add(originals.store_original(writer.folder, file.data))
        transaction.note_originals(kept)
        transaction.store_thumbnails(thumbnails)
        if in_transaction is not None:
            in_transaction(transaction, added)

    entries = [entry for file in files for entry in file.description.entries]
    if intake is not None:
        entries = intake.check(writer, entries, [file.description for file in files])
    return writer.add(
        entries, duplicates=duplicates, restore=restore, replaces=replaces, in_transaction=attach
    )
