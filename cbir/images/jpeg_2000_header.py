"""Size of a JPEG 2000 image, read from the boxes and markers that decoders read."""

from typing import NamedTuple

from cbir.errors import UnreadableImage

START = b"\xff\x4f\xff\x51"  # SOC, and SIZ, which must follow it: ISO/IEC 15444-1, A.4.1 and A.5.1
BOXES = b"\0\0\0\x0cjP  \r\n\x87\n"  # I.5.1
MAX_BOXES = 1000


class Jpeg2000Size(NamedTuple):
    """Size in pixels, number of components and of tiles, and bits of the deepest component."""

    width: int
    height: int
    components: int
    tiles: int
    bits: int


def read_jpeg_2000_size(data: bytes) -> Jpeg2000Size:
    """Return the size of a codestream, raw or in a JP2 file.

    Raises UnreadableImage without a codestream, or if the file's header contradicts it.
    """
    start, declared = (0, None) if data.startswith(START) else _find_codestream(data)
    if data[start : start + 4] != START or len(data) < start + 43:
        raise UnreadableImage("is damaged: it has no JPEG 2000 codestream; export it again")
    right, bottom, left, top, tile_width, tile_height, tile_left, tile_top = (
        int.from_bytes(data[place : place + 4], "big") for place in range(start + 8, start + 40, 4)
    )
    tiles = -(-(right - tile_left) // max(tile_width, 1)) * -(-(bottom - tile_top) // max(tile_height, 1))
    components = max(int.from_bytes(data[start + 40 : start + 42], "big"), 1)
    depths = data[start + 42 : start + 42 + 3 * components : 3]  # less 1, and their sign in the upper bit
    bits = max(depth & 0x7F for depth in depths) + 1
    size = Jpeg2000Size(right - left, bottom - top, components, tiles, bits)
    if declared not in (None, size[:2]):
        raise UnreadableImage("is damaged: its JP2 header and its codestream differ in size; export it again")
    return size


def _find_codestream(data: bytes) -> tuple[int, tuple[int, int] | None]:
    """Return the start of the codestream in a JP2 file, and the size in the file's image header (I.5.3.1)."""
    position, declared = 0, None
    for _ in range(MAX_BOXES if data.startswith(BOXES) else 0):
        length, kind = int.from_bytes(data[position : position + 4], "big"), data[position + 4 : position + 8]
        content = position + 8
        if length == 1:  # I.4: the length is in the next 8 bytes
            length, content = int.from_bytes(data[content : content + 8], "big"), content + 8
        if kind == b"jp2c":
            return content, declared
        if kind == b"ihdr":
            height, width = data[content : content + 4], data[content + 4 : content + 8]
            declared = int.from_bytes(width, "big"), int.from_bytes(height, "big")
        if length < content - position:
            break
        position = content if kind == b"jp2h" else position + length  # boxes inside follow
    raise UnreadableImage("is damaged: it has no JPEG 2000 codestream; export it again")
