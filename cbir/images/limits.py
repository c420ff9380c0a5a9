"""How large an image may be. A few bytes can announce more pixels than there is memory."""

from dataclasses import dataclass

from cbir.errors import UnreadableImage


@dataclass(frozen=True)
class Limits:
    """pixels: of one frame. bytes: of one file. frames: of one file."""

    pixels: int = 100_000_000
    bytes: int = 512 * 2**20
    frames: int = 10_000

    def check_bytes(self, name: str, size: int) -> None:
        """Raise UnreadableImage for a file of more than `bytes`."""
        if size > self.bytes:
            raise UnreadableImage(f"{name} has {size} bytes; at most {self.bytes} are read")

    def check_pixels(self, name: str, width: int, height: int) -> None:
        """Raise UnreadableImage for a frame that announces no pixels or more than `pixels`."""
        if width < 1 or height < 1:
            raise UnreadableImage(f"{name} says it is {width} x {height} pixels: nothing to see")
        if width * height > self.pixels:
            raise UnreadableImage(
                f"{name} says it is {width} x {height} pixels; at most {self.pixels} are decoded (max_pixels)"
            )

    def check_frames(self, name: str, frames: int) -> None:
        """Raise UnreadableImage for a file of more than `frames`."""
        if frames > self.frames:
            raise UnreadableImage(f"{name} has {frames} frames; at most {self.frames} are read")
