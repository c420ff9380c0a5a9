"""Store files that were sent, DICOM instances and uploads, once they are described."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from cbir.ingest.description import DescribedFile
from cbir.ingest.intake_check import IntakeCheck
from cbir.store.records import originals
from cbir.store.records.add_transaction import Added, AddTransaction
from cbir.store.records.record_queries import RecordQueries
from cbir.store.writing.writer import Writer

STATISTICS_IMAGES = 256  # images in a collection before its first statistics are computed on the fly


@dataclass(frozen=True, eq=False)
class ReceivedFile:
    """The bytes of a file and its description."""

    data: bytes
    description: DescribedFile

    @property
    def refused(self) -> str | None:
        """Reason why the file has no images; None if it has."""
        return self.description.refused


def select_new_instances(uids: Sequence[str], existing: Collection[str]) -> list[bool]:
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
