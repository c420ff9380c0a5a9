"""Pictures in reports: thumbnails of files and objects, each rendered once."""

import base64
from pathlib import Path

import cv2

from cbir.errors import UnreadableImage
from cbir.images import Limits
from cbir.ingest.object_store import read_images_at
from cbir.search import select_frame

SIDE = 128  # pixels of the longer side
JPEG_QUALITY = 80
BURNED_IN = "not shown: text may be burned in"
MISSING = "its file is missing or has changed"


class ReportPictures:
    """Thumbnails as HTML, each rendered once."""

    def __init__(self, max_pixels: int) -> None:
        self.limits = Limits(pixels=max_pixels)
        self._cache: dict[str, str] = {}

    def html(self, source: str, frame: int | None, content: str, burned_in: bool) -> str:
        """Return an `img`, or a text that says why there is none.

        Parameters
        ----------
        source : str
            Path of the file, or address of the object.
        frame : int or None
        content : str
            Hash of the picture; a file with another picture is not shown.
        burned_in : bool
            DICOM says that the picture holds text; it is not shown.
        """
        if burned_in:
            return f'<span class="none">{BURNED_IN}</span>'
        if content not in self._cache:
            self._cache[content] = self._render(source, frame, content)
        return self._cache[content]

    def _render(self, source: str, frame: int | None, content: str) -> str:
        try:
            image = select_frame(read_images_at(source, self.limits), frame, Path(source).name)
        except (UnreadableImage, OSError):
            return f'<span class="none">{MISSING}</span>'
        if image.content_hash != content:
            return f'<span class="none">{MISSING}</span>'
        height, width = image.pixels.shape[:2]
        scale = min(1.0, SIDE / max(height, width))
        size = max(1, round(width * scale)), max(1, round(height * scale))
        small = cv2.resize(image.pixels, size, interpolation=cv2.INTER_AREA)
        if small.ndim == 3:
            small = cv2.cvtColor(small, cv2.COLOR_RGB2BGR)
        _, file = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
        return f'<img alt="" src="data:image/jpeg;base64,{base64.b64encode(file.tobytes()).decode()}">'
