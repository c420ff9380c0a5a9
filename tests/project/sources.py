"""The product's Python sources, parsed once."""

import ast
import gc
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ("cbir", "indexer", "service")

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Source(NamedTuple):
    """A file of the product and its syntax tree."""

    path: str
    tree: ast.Module


def files() -> list[Path]:
    """Return every Python file of the product, in order of path."""
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@cache
def sources() -> tuple[Source, ...]:
    """Return every Python file of the product with its syntax tree, in order of path."""
    gc.disable()  # looking again and again at trees that stay takes most of the time
    try:
        return tuple(Source(str(file.relative_to(ROOT)), ast.parse(file.read_text())) for file in files())
    finally:
        gc.enable()
