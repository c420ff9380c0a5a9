"""How large an image may be. A few bytes can announce more pixels than there is memory."""

from dataclasses import dataclass

from cbir.errors import UnreadableImage


@dataclass(frozen=True)
class Limits:
    """The most that is decoded; checked against headers, before anything is unpacked.

    pixels: width x height of one frame. bytes: of one file, and of a deflated DICOM data set once inflated.
    frames: frames or pages of one file.
    """

    pixels: int = 100_000_000
    bytes: int = 512 * 2**20
    frames: int = 10_000

    def check_bytes(self, size: int) -> None:
        """Raise UnreadableImage for an empty file or one of more than `bytes`."""
        if size < 1:
            raise UnreadableImage("is empty; copy or export it again")
        if size > self.bytes:
            raise UnreadableImage(f"has {size} bytes; at most {self.bytes} are read: make it smaller")

    def check_pixels(self, width: int, height: int) -> None:
        """Raise UnreadableImage for a frame that announces no pixels or more than `pixels`."""
        if width < 1 or height < 1:
            raise UnreadableImage(f"says it is {width} x {height} pixels, nothing to see; export it again")
        if width * height > self.pixels:
            raise UnreadableImage(
                f"says it is {width} x {height} pixels; at most {self.pixels} are decoded (max_pixels)"
            )

    def check_frames(self, frames: int) -> None:
        """Raise UnreadableImage for a file that announces no frames or more than `frames`."""
        if frames < 1:
            raise UnreadableImage("says it has no frames; export it again")
        if frames > self.frames:
            raise UnreadableImage(f"has {frames} frames; at most {self.frames} are read: split it")
