"""Check that a path is inside allowed folders, symbolic links resolved."""

import os
from collections.abc import Iterable
from pathlib import Path


def is_inside(path: Path, roots: Iterable[Path]) -> bool:
    """Return True if the real path of `path`, which need not exist, is one of the roots' real paths or below one."""
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(root)) for root in roots)
