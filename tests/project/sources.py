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
    """A file of the product, its syntax tree, and the tree's nodes in the order of `ast.walk`, which takes long."""

    path: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]


def parsed(file: Path) -> Source:
    """Return a file with its syntax tree."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return Source(str(file.relative_to(ROOT)), tree, tuple(ast.walk(tree)))


def files() -> list[Path]:
    """Return every Python file of the product, in order of path."""
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@cache
def sources() -> tuple[Source, ...]:
    """Return every Python file of the product with its syntax tree, in order of path."""
    gc.disable()  # looking again and again at trees that stay takes most of the time
    try:
        return tuple(map(parsed, files()))
    finally:
        gc.freeze()
        gc.enable()
