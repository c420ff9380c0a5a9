"""The part of a comparison that is not of images: copies of pixels under other UIDs, and quarantined images."""

from contextlib import suppress
from typing import TYPE_CHECKING

from cbir.errors import ArchiveFailed, NotFound
from cbir.store.followed_changes import drop_quarantined, forget_copy, move_copy, move_quarantined
from cbir.store.originals import UPLOAD
from cbir.store.quarantine import QuarantinedImage
from cbir.store.quarantine_release import read_quarantined
from cbir.store.sent_instances import StoredCopy, stored_copies
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
    item = ArchiveItem(instance=copy.instance)
    try:
        now = comparison.archive.find_instance(copy.instance)
    except ItemRefused as error:
        comparison.not_compared(item, str(error))
        return
    comparison.present_count += now is not None
    described = comparison.read(now)[1] if now else None
    if isinstance(described, str):
        comparison.not_compared(now or item, described)
        return
    records = described.records if described else ()
    same = [record for record in records if record.content_hash == copy.content_hash]
    if not same:
        comparison.differ(PIXELS if now else DELETED, [now or item])
    elif same[0].patient_key != copy.patient_key:
        comparison.differ(PATIENT, [now or item])
    else:
        comparison.count("equal")
        return
    if not now:
        comparison.gone_copies.append(copy.instance)
    elif comparison.options.apply:
        with comparison.writer() as writer:
            if same:
                move_copy(writer, copy.instance, same[0].patient_key)
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
    try:
        now = comparison.archive.find_instance(record.instance)
    except ItemRefused as error:
        comparison.not_compared(item, str(error))
        return
    comparison.present_count += now is not None
    described = comparison.read(now)[1] if now else None
    if isinstance(described, str):
        comparison.not_compared(item, described)
        return
    frames = described.records if described else ()
    same = [frame for frame in frames if frame.content_hash == record.content_hash]
    if not same:
        comparison.differ(PIXELS if now else DELETED, [item])
    elif same[0].patient_key != record.patient_key:
        comparison.differ(PATIENT, [item])
    else:
        comparison.count("equal")
        return
    if not now:
        comparison.gone_quarantined.append(image.image_id)
    elif comparison.options.apply:
        with suppress(NotFound), comparison.writer() as writer:  # released or refused meanwhile
            if same:
                move_quarantined(writer, image.image_id, same[0])
            else:
                drop_quarantined(writer, image.image_id)
