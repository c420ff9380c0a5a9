"""Whether a file lies below folders that may be looked into, whatever links say."""

import os
from collections.abc import Iterable
from pathlib import Path


def is_inside(path: Path, roots: Iterable[Path]) -> bool:
    """Whether the real path of a file or folder is one of the roots' real paths, or below one; it need not exist."""
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(root)) for root in roots)
