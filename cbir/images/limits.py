"""Limits on image size: a small file can declare more pixels than fit in memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cbir.errors import UnreadableImage

if TYPE_CHECKING:
    from cbir.settings import Settings


_on_frame: ContextVar[Callable[[int], None] | None] = ContextVar("on_frame", default=None)


@contextmanager
def watch_frames(on_frame: Callable[[int], None]) -> Iterator[None]:
    """Call `on_frame` with the size in bytes of each frame that a header declares within the limits."""
    before = _on_frame.set(on_frame)
    try:
        yield
    finally:
        _on_frame.reset(before)


@dataclass(frozen=True)
class Limits:
    """Largest image that is decoded; checked against headers before decompression.

    pixels: width x height of one frame. frame_bytes: width x height x channels x bytes per sample of one frame.
    bytes: size of one file. inflated_bytes: size of a deflated DICOM data set once inflated. frames: frames or pages
    of one file.
    """

    pixels: int = 100_000_000
    frame_bytes: int = 300_000_000
    bytes: int = 512 * 2**20
    inflated_bytes: int = 128 * 2**20
    frames: int = 10_000

    @staticmethod
    def from_settings(settings: "Settings") -> "Limits":
        """Return the limits of frames that the `settings` give; the others are the defaults."""
        return Limits(pixels=settings.max_pixels, frame_bytes=settings.max_frame_bytes)

    def check_bytes(self, size: int) -> None:
        """Raise UnreadableImage for an empty file or one of more than `bytes`."""
        if size < 1:
            raise UnreadableImage("is empty; copy or export it again")
        if size > self.bytes:
            raise UnreadableImage(f"has {size} bytes; at most {self.bytes} are read; make it smaller")

    def check_frame(self, width: int, height: int, pixel_bytes: int) -> None:
        """Raise UnreadableImage for a frame that declares no pixels, or more than `pixels` or `frame_bytes`.

        Parameters
        ----------
        width, height : int
            Size in pixels.
        pixel_bytes : int
            Channels times bytes per sample.
        """
        if width < 1 or height < 1:
            raise UnreadableImage(f"declares {width} x {height} pixels, an empty image; export it again")
        if width * height > self.pixels:
            raise UnreadableImage(
                f"declares {width} x {height} pixels; at most {self.pixels} are decoded (max_pixels)"
            )
        if width * height * pixel_bytes > self.frame_bytes:
            raise UnreadableImage(
                f"declares {width} x {height} pixels of {pixel_bytes} bytes; frames of at most "
                f"{self.frame_bytes} bytes are decoded (max_frame_bytes)"
            )
        if on_frame := _on_frame.get():
            on_frame(width * height * pixel_bytes)

    def check_frames(self, frames: int) -> None:
        """Raise UnreadableImage for a file that declares no frames or more than `frames`."""
        if frames < 1:
            raise UnreadableImage("declares no frames; export it again")
        if frames > self.frames:
            raise UnreadableImage(f"has {frames} frames; at most {self.frames} are read; split it")
