"""The intake check where images are written: findings of the collection are added, and labelled images held."""

import weakref
from collections.abc import Sequence
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Literal

from cbir.errors import InvalidInput
from cbir.ingest.description import DescribedFile
from cbir.store import Collection
from cbir.store.records.add_transaction import Added
from cbir.store.records.records import FINDINGS_LABEL, Entry
from cbir.store.writing.writer import Writer
from cbir.system.remedies import install_command

if TYPE_CHECKING:
    from cbir.ingest.checks.collection_check import CollectionCheck


def require_packages(intake: str) -> None:
    """Raise InvalidInput with the remedy if images are to be checked, and a package or its weights are missing.

    intake: the setting.
    """
    if intake != "accept":
        from cbir.ingest.checks.burned_in_text import reader_path  # not imported where nothing is checked

        reader_path()
        if find_spec("simplejpeg") is None:
            raise InvalidInput(f"the intake check needs simplejpeg: {install_command('intake')}")


Intake = Literal["accept", "flag", "quarantine"]

RENEWED = 2  # times as many images in the collection: then it is compared with anew


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
        from cbir.ingest.checks.collection_check import (
            CollectionCheck,  # not imported where nothing is checked
        )

        collection = self._collection()
        assert collection is not None, "the caller writes to it"
        with self._lock:
            images = len(collection)
            if self._check is None or images >= RENEWED * self._images:
                self._check, self._images = CollectionCheck(collection), max(images, 1)
            return self._check
