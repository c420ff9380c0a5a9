"""A file of weights that a card beside it describes: read whole, and only where it is that very file."""

import hashlib
from pathlib import Path

from cbir.errors import InvalidInput, NotFound

LARGEST = 1 << 30  # bytes


def read_verified(weights: Path, sha256: str, largest: int = LARGEST) -> bytes:
    """The content of `weights`, whose hash its card gives, as hexadecimal digits.

    Raises NotFound where there is none, InvalidInput for one of more than `largest` bytes and for another one.
    """
    if not weights.is_file():
        raise NotFound(f"there are no weights {weights}")
    if weights.stat().st_size > largest:
        raise InvalidInput(f"{weights} is larger than such weights can be ({largest >> 20} MiB)")
    content = weights.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise InvalidInput(f"{weights} is not the file that its card describes; fetch or make both again")
    return content
