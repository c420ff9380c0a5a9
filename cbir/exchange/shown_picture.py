"""Pictures of images for other programs, which cannot be asked who may see text in the pixels."""

from cbir.images import Image
from cbir.intake.findings import findings_of
from cbir.severity.grey_images import read_stored_image
from cbir.store import Collection, Record


def read_shown_picture(collection: Collection, record: Record, max_pixels: int) -> Image | None:
    """Return an image of `collection`, or its thumbnail if the file is gone; None without both or with text in it.

    Text is what DICOM declares or the intake check found. `max_pixels`: of the largest file.
    """
    if record.burned_in or "text" in findings_of(record):
        return None
    return read_stored_image(collection, record, max_pixels)
