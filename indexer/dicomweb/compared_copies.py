"""The part of a comparison that is not of images: copies of pixels under other UIDs, and quarantined images."""

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from cbir.errors import ArchiveFailed, NotFound
from cbir.store.records.originals import UPLOAD
from cbir.store.records.quarantine import QuarantinedImage
from cbir.store.records.records import Record
from cbir.store.upkeep.archive_instances import (
    StoredCopy,
    drop_quarantined,
    forget_copy,
    move_copy,
    move_quarantined,
    stored_copies,
)
from cbir.store.upkeep.quarantine_release import read_quarantined
from indexer.dicomweb.archive_items import ArchiveItem, ItemRefused

if TYPE_CHECKING:
    from indexer.dicomweb.archive_comparison import ArchiveComparison

ROWS = 100  # read from the collection at a time
DELETED, PIXELS, PATIENT = "deleted from the archive", "other pixels", "another patient"


def compare_all(comparison: "ArchiveComparison") -> None:
    """Compare images, copies and quarantined images. Raises ArchiveFailed, also if the archive has none of them."""
    try:
        comparison.compare_images()
        compare_copies(comparison)
        compare_quarantined(comparison)
        comparison.delete_gone()
    except ArchiveFailed:
        if not comparison.stop.is_set():
            raise


def compare_copies(comparison: "ArchiveComparison") -> None:
    """Compare the instances whose pixels an image of another instance shows; with a filter none of them."""
    after = ""
    while copies := stored_copies(comparison.collection, after, ROWS):
        for copy in copies:
            if comparison.stop.is_set():
                return
            if comparison.options.has_filter:
                comparison.count("left out by option")
            else:
                _compare_copy(comparison, copy)
        after = copies[-1].instance


def _compare_copy(comparison: "ArchiveComparison", copy: StoredCopy) -> None:
    compared = _compare_picture(comparison, ArchiveItem(instance=copy.instance), copy)
    if compared is None:
        return
    if not compared.is_there:
        comparison.gone_copies.append(copy.instance)
    elif comparison.options.apply:
        with comparison.writer() as writer:
            if compared.record:
                move_copy(writer, copy.instance, compared.record.patient_key)
            else:
                forget_copy(writer, copy.instance)  # the next run adds what it shows now


def compare_quarantined(comparison: "ArchiveComparison") -> None:
    """Compare quarantined images; with a filter none of them."""
    after = ""
    while quarantined := read_quarantined(comparison.collection, after, ROWS):
        for image in quarantined:
            if comparison.stop.is_set():
                return
            if image.record.source.startswith(UPLOAD) and image.record.instance:
                if comparison.options.has_filter:
                    comparison.count("left out by option")
                else:
                    _compare_quarantined(comparison, image)
        after = quarantined[-1].image_id


def _compare_quarantined(comparison: "ArchiveComparison", image: QuarantinedImage) -> None:
    record = image.record
    item = ArchiveItem(record.study, record.series, record.instance)
    compared = _compare_picture(comparison, item, record)
    if compared is None:
        return
    if not compared.is_there:
        comparison.gone_quarantined.append(image.image_id)
    elif comparison.options.apply:
        with suppress(NotFound), comparison.writer() as writer:  # released or refused meanwhile
            if compared.record:
                move_quarantined(writer, image.image_id, compared.record)
            else:
                drop_quarantined(writer, image.image_id)


class _ComparedPicture(NamedTuple):
    """A picture that differs in the archive. is_there: its instance is. record: of the frame that shows it there."""

    is_there: bool
    record: Record | None


def _compare_picture(
    comparison: "ArchiveComparison", item: ArchiveItem, stored: StoredCopy | Record
) -> _ComparedPicture | None:
    """Compare a stored picture with its instance in the archive; None if they are equal or cannot be compared."""
    try:
        now = comparison.archive.find_instance(item.instance)
    except ItemRefused as error:
        comparison.not_compared(item, str(error))
        return None
    comparison.present_count += now is not None
    described = comparison.read(now)[1] if now else None
    if isinstance(described, str):
        comparison.not_compared(now or item, described)
        return None
    records = described.records if described else ()
    same = next((record for record in records if record.content_hash == stored.content_hash), None)
    if same is None:
        comparison.differ(PIXELS if now else DELETED, [now or item])
    elif same.patient_key != stored.patient_key:
        comparison.differ(PATIENT, [now or item])
    else:
        comparison.count("equal")
        return None
    return _ComparedPicture(now is not None, same)
