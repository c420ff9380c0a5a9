"""Small pictures of queries and answers, as data URIs."""

import base64
from pathlib import Path

import cv2

from cbir.errors import UnreadableImage
from cbir.images import Limits, read_images
from cbir.search import select_frame

SIDE = 128  # pixels, the longer one
JPEG_QUALITY = 80

BURNED_IN = "not shown: text may be burned in"
GONE = "its file is gone or has changed"


class ReportPictures:
    """Draws each picture once."""

    def __init__(self, max_pixels: int) -> None:
        self.limits = Limits(pixels=max_pixels)
        self._drawn: dict[str, str] = {}

    def html(self, source: str, frame: int | None, content: str, burned_in: bool) -> str:
        """An `img`, or the words why there is none: nothing that DICOM says holds burned-in text is shown."""
        if burned_in:
            return f'<span class="none">{BURNED_IN}</span>'
        if content not in self._drawn:
            self._drawn[content] = self._draw(Path(source), frame, content)
        return self._drawn[content]

    def _draw(self, path: Path, frame: int | None, content: str) -> str:
        try:
            image = select_frame(read_images(path, limits=self.limits), frame, path.name)
        except (UnreadableImage, OSError):
            return f'<span class="none">{GONE}</span>'
        if image.content_hash != content:
            return f'<span class="none">{GONE}</span>'
        height, width = image.pixels.shape[:2]
        scale = min(1.0, SIDE / max(height, width))
        size = max(1, round(width * scale)), max(1, round(height * scale))
        small = cv2.resize(image.pixels, size, interpolation=cv2.INTER_AREA)
        if small.ndim == 3:
            small = cv2.cvtColor(small, cv2.COLOR_RGB2BGR)
        _, file = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
        return f'<img alt="" src="data:image/jpeg;base64,{base64.b64encode(file.tobytes()).decode()}">'
