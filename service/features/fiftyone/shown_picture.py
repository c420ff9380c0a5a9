"""Pictures of images for other programs, which cannot be asked who may see text in the pixels."""

from dataclasses import dataclass

from cbir.images import Image
from cbir.ingest.checks.burned_in_text import find_burned_in_text, reader_path
from cbir.ingest.checks.pixel_checks import findings_of
from cbir.learn.severity.stored_images import read_stored_image
from cbir.store import Collection, Record


@dataclass(frozen=True)
class ShownPictures:
    """The pictures of a collection that have no text in the pixels.

    Text is what DICOM declares, the intake check found, or, with `find_text`, a look at the picture finds; that needs
    a package, and raises InvalidInput without it. max_pixels: of the largest file.
    """

    collection: Collection
    max_pixels: int
    find_text: bool = False

    def __post_init__(self) -> None:
        if self.find_text:
            reader_path()

    def read(self, record: Record) -> Image | None:
        """Return an image, or its thumbnail if the file is gone; None without both or with text in it."""
        if record.burned_in or "text" in findings_of(record):
            return None
        image = read_stored_image(self.collection, record, self.max_pixels)
        has_text = image is not None and self.find_text and find_burned_in_text(image.grey) is not None
        return None if has_text else image
