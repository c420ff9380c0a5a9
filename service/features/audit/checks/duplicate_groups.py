"""Groups of duplicates, made from pairs."""

from collections.abc import Callable
from dataclasses import dataclass

from cbir.system.cancellation import with_checkpoints

REFERENCE = "reference"


@dataclass(frozen=True)
class DuplicateMember:
    """An image of a group.

    change: "reference", or how the image differs from the reference: "identical", "resized", "recompressed", "gamma",
    "rotated", "inverted", "flipped", "cropped", "text", several of them joined by "+". confidence: from 0 to 1.
    """

    number: int
    image_id: str
    source: str
    frame: int | None
    change: str
    confidence: float


@dataclass(frozen=True)
class DuplicateGroup:
    """Duplicates of one picture; the first is the reference that the others are compared with."""

    members: tuple[DuplicateMember, ...]


@dataclass(frozen=True)
class Duplicates:
    """Groups of duplicates in a collection.

    unread: ids of images whose picture cannot be read; of these only identical ones are found. pairs: pairs of
    pictures that were compared.
    """

    groups: tuple[DuplicateGroup, ...]
    unread: tuple[str, ...]
    pairs: int


def group_by_reference(
    pairs: set[tuple[int, int]],
    preference: Callable[[int], tuple[int, ...]],
    is_duplicate: Callable[[int, int], bool],
) -> list[list[int]]:
    """Group rows so that each is a duplicate of its group's first, the reference; chains are cut there.

    Parameters
    ----------
    pairs : set of (int, int)
        Proved duplicates.
    preference : callable
        Key of a row; the row with the smallest becomes the reference.
    is_duplicate : callable
        Compares a reference with a row that only others connect to it.
    """
    linked: dict[int, set[int]] = {}
    for first, second in pairs:
        linked.setdefault(first, set()).add(second)
        linked.setdefault(second, set()).add(first)
    left = set(linked)
    groups = []
    for reference in with_checkpoints(sorted(linked, key=preference)):
        if reference not in left:
            continue
        others = sorted(_connected(reference, linked, left) - {reference})
        members = [row for row in others if row in linked[reference] or is_duplicate(reference, row)]
        if members:
            groups.append([reference, *members])
        left -= {reference, *members}
    return groups


def _connected(start: int, linked: dict[int, set[int]], left: set[int]) -> set[int]:
    """Return the rows of `left` that pairs connect with `start`, itself included."""
    reached, open_rows = {start}, [start]
    while open_rows:
        for row in linked[open_rows.pop()]:
            if row in left and row not in reached:
                reached.add(row)
                open_rows.append(row)
    return reached
