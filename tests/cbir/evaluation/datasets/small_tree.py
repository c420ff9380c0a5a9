"""A code tree with made-up labels that branches like the published one along a few codes."""

import os
from pathlib import Path

import pytest

from cbir.evaluation.datasets.irma.codes import AXES, DIGITS
from cbir.evaluation.datasets.irma.phantom_release import code_tree_text

BRANCHES = (
    {"": 10, "1": 7, "11": 7, "112": 19},
    {"": 6, "1": 3, "11": 18, "12": 18, "2": 5, "21": 13, "22": 13, "23": 1, "4": 13, "4a": 1},
    {"": 11, "2": 4, "21": 25, "3": 6, "33": 9, "4": 7, "41": 8, "44": 3, "45": 7, "46": 8, "5": 7, "51": 8}
    | {"7": 6, "73": 4, "9": 7, "91": 12, "93": 7, "94": 4, "95": 7},
    {"": 18, "4": 11, "44": 6, "7": 30},
)
SMALL_TREE = "".join(
    f"**** {axis} ****\n"
    + "".join(
        "\t" * len(parent) + f"[{parent}{DIGITS[child]}] {axis} {parent}{DIGITS[child]}\n"
        for parent, count in branches.items()
        for child in range(count)
    )
    + "\n"
    for axis, branches in zip(AXES, BRANCHES, strict=True)
)


def published() -> Path:
    """The folder of the published tree, examples and class counts; skips the test where there is none."""
    data = os.environ.get("CBIR_DATA")
    if not data:
        pytest.skip("CBIR_DATA does not name a folder beside which irma/ holds the published code tree")
    folder = Path(data).parent / "irma"
    if not (folder / "code_tree_2008.txt").is_file():
        pytest.skip(f"no published code tree in {folder}")
    return folder


def tree_of(codes: list[str]) -> str:
    """The text of a tree that has all these codes."""
    return code_tree_text(codes)
