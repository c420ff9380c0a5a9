"""The IRMA code tree: which digits there are below which, and what they mean."""

import re
from collections.abc import Mapping
from pathlib import Path

from cbir.datasets.irma.codes import AXES, AXIS_SLICES, DIGITS, LENGTHS, code_digits
from cbir.datasets.irma.text_lines import read_lines
from cbir.errors import InvalidInput

SECTION = re.compile(r"\*+\s*([a-z ]+?)\s*\*+", re.IGNORECASE)
NODE = re.compile(r"\[([0-9a-z]+)\]\s*(.*)", re.IGNORECASE)
AXIS_OF = dict(zip(AXES, range(4), strict=True)) | {"biological system": 3}


class CodeTree:
    """Four axes of nodes. Immutable."""

    def __init__(self, axes: tuple[Mapping[str, str], ...], source: str = "the code tree") -> None:
        """axes: for each axis the labels by code, for instance "112" -> "analog"; see `read`."""
        self.axes = axes
        self.source = source
        self._children: list[dict[str, int]] = [{} for _ in axes]
        for nodes, children in zip(axes, self._children, strict=True):
            for node in nodes:
                children[node[:-1]] = children.get(node[:-1], 0) + 1

    @classmethod
    def read(cls, path: Path) -> "CodeTree":
        """The tree in a file of sections `**** technique ****` and nodes `[1121] label`, indented or not.

        Raises InvalidInput, naming the line, where a node has no parent, comes twice or leaves a gap behind:
        a tree with nodes missing would give wrong errors without a word.
        """
        lines, _ = read_lines(path)
        axes: tuple[dict[str, str], ...] = ({}, {}, {}, {})
        axis = None
        for number, line in enumerate(lines, start=1):
            line = line.strip()
            section, node = SECTION.fullmatch(line), NODE.fullmatch(line)
            if section and section[1].lower() in AXIS_OF:
                axis = AXIS_OF[section[1].lower()]
            elif node and axis is not None:
                problem = _problem(node[1].lower(), axes[axis], LENGTHS[axis])
                if problem:
                    raise InvalidInput(f"{path}, line {number}: [{node[1]}] {problem}")
                axes[axis][node[1].lower()] = node[2].strip()
            elif line:
                raise InvalidInput(f"{path}, line {number}: neither a section nor a node `[code] label`")
        missing = [name for name, nodes in zip(AXES, axes, strict=True) if not nodes]
        if missing:
            raise InvalidInput(f"{path} has no section {', '.join(missing)}; is it the whole code tree?")
        return cls(axes, str(path))

    def branching(self, code: str) -> list[int]:
        """For each of the 13 digits of a true code, among how many children it was chosen; 1 below a leaf.

        Raises InvalidInput, naming axis and digit, where the tree does not have the code.
        """
        found = []
        for axis, place in enumerate(AXIS_SLICES):
            path = code_digits(code)[place]
            for depth, digit in enumerate(path):
                count = self._children[axis].get(path[:depth], 0)
                if path[: depth + 1] not in self.axes[axis] and (count or digit != "0"):
                    raise InvalidInput(
                        f"{code}: {self.source} has no {AXES[axis]} {path[: depth + 1]} "
                        f"(digit {depth + 1} of {path}); is it the tree of this labelling?"
                    )
                found.append(count or 1)
        return found

    def words(self, code: str) -> str:
        """A code's path in words, axis after axis: "x-ray, plain radiography | sagittal | ...".

        Raises InvalidInput where the tree does not have the code.
        """
        return " | ".join(self._axis_words(code, axis) for axis in range(4))

    def _axis_words(self, code: str, axis: int) -> str:
        path, labels = code_digits(code)[AXIS_SLICES[axis]], []
        for end in range(1, len(path) + 1):
            if path[end - 1] == "*":
                labels.append("?")
                break
            if path[end - 1] == "0":
                break
            if path[:end] not in self.axes[axis]:
                raise InvalidInput(f"{code}: {self.source} has no {AXES[axis]} {path[:end]}")
            labels.append(self.axes[axis][path[:end]])
        return ", ".join(labels) or "unspecified"


def _problem(node: str, nodes: dict[str, str], longest: int) -> str | None:
    """Why a node cannot stand here, None where it can."""
    if len(node) > longest:
        return f"has more than the {longest} digits of its axis"
    if node in nodes:
        return "comes twice"
    if node[:-1] and node[:-1] not in nodes:
        return f"has no parent [{node[:-1]}] above it"
    place = DIGITS.index(node[-1])
    if place and node[:-1] + DIGITS[place - 1] not in nodes:
        return f"leaves a gap: [{node[:-1] + DIGITS[place - 1]}] is missing before it"
    return None
