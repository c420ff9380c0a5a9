"""IRMA codes `TTTT-DDD-AAA-BBB` (technique, direction, anatomy, biological system), and their tree."""

import codecs
import re
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path

from cbir.errors import InvalidInput
from cbir.system.files import os_errors

MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_lines(path: Path) -> tuple[list[str], str | None]:
    """Return the lines, and a remark if the file is not UTF-8. Raises InvalidInput if it is not a text."""
    with os_errors(f"{path} cannot be read"):
        data = path.read_bytes()
    if data.startswith(MARKS):
        return _lines(data.decode("utf-16", errors="replace")), f"{path.name} is UTF-16"
    if b"\0" in data:
        raise InvalidInput(f"{path} is not a text file")
    try:
        return _lines(data.decode("utf-8-sig")), None
    except UnicodeDecodeError:
        return _lines(data.decode("latin-1")), f"{path.name} is not UTF-8 and was read as Latin-1"


def _lines(text: str) -> list[str]:
    # str.splitlines would also split at a Latin-1 x85, which Windows writes for an ellipsis
    return re.split(r"\r\n|\r|\n", text)


AXES = ("technique", "direction", "anatomy", "biosystem")

LENGTHS = (4, 3, 3, 3)

AXIS_SLICES = tuple(slice(end - n, end) for end, n in zip(accumulate(LENGTHS), LENGTHS, strict=True))

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

UNKNOWN = "****-***-***-***"  # don't know, on every axis

CLUTTER = "C"  # true code of an image outside the labelling, which is not scored

FORM = re.compile(r"([0-9a-z*]{4})(-?)([0-9a-z*]{3})\2([0-9a-z*]{3})\2([0-9a-z*]{3})")


def parse_code(text: str, wildcards: bool = False) -> str:
    """Return a code in lower case with hyphens; `text` may have upper case and no hyphens.

    Text that begins with C is CLUTTER. With `wildcards`, `*` is allowed (don't know), and replaces everything after
    it on its axis. Raises InvalidInput for other text.
    """
    code = text.strip().lower()
    if code.startswith("c"):
        return CLUTTER
    match = FORM.fullmatch(code)
    if not match:
        raise InvalidInput(f"'{text.strip()}' is not an IRMA code; codes look like 1121-120-942-700")
    parts = [match[group] for group in (1, 3, 4, 5)]
    if not wildcards:
        _check(text, parts)
    return "-".join(part.partition("*")[0].ljust(len(part), "*") for part in parts)


def _check(text: str, parts: list[str]) -> None:
    for axis, part in zip(AXES, parts, strict=True):
        if "*" in part:
            raise InvalidInput(f"'{text.strip()}' contains * (don't know), which only an answer may")
        if part.partition("0")[2].strip("0"):
            raise InvalidInput(f"'{text.strip()}': {axis} {part} continues after 0, which ends the path")


def code_digits(code: str) -> str:
    """Return the 13 characters of a parsed code, without hyphens."""
    return code.replace("-", "")


def strip_zeros(image_id: str) -> str:
    """Return an image id without leading zeros: 00003145 and 3145 are the same image."""
    image_id = image_id.strip()
    return image_id.lstrip("0") or "0" if image_id.isdecimal() else image_id


SECTION = re.compile(r"\*+([a-z\s]+)\*+", re.IGNORECASE)

NODE = re.compile(r"\[([0-9a-z]+)\](.*)", re.IGNORECASE | re.DOTALL)

AXIS_OF = dict(zip(AXES, range(4), strict=True)) | {"biological system": 3}


class CodeTree:
    """Four axes of nodes. Immutable."""

    def __init__(self, axes: tuple[Mapping[str, str], ...], source: str = "the code tree") -> None:
        """`axes`: for each axis the labels by code, for instance "112" -> "analog"; `source` is named in errors."""
        self.axes = axes
        self.source = source
        self._children: list[dict[str, int]] = [{} for _ in axes]
        for nodes, children in zip(axes, self._children, strict=True):
            for node in nodes:
                children[node[:-1]] = children.get(node[:-1], 0) + 1

    @classmethod
    def read(cls, path: Path) -> "CodeTree":
        """Read a tree from a file of sections `**** technique ****` and nodes `[1121] label`, indented or not.

        Raises InvalidInput, naming the line, if a node has no parent, is repeated or leaves a gap: with missing
        nodes, errors would be wrong without notice.
        """
        lines, _ = read_lines(path)
        axes: tuple[dict[str, str], ...] = ({}, {}, {}, {})
        axis = None
        for number, line in enumerate(lines, start=1):
            line = line.strip()
            section, node = SECTION.fullmatch(line), NODE.fullmatch(line)
            title = section[1].strip().lower() if section else ""
            if title in AXIS_OF:
                axis = AXIS_OF[title]
            elif node and axis is not None:
                problem = _problem(node[1].lower(), axes[axis], LENGTHS[axis])
                if problem:
                    raise InvalidInput(f"{path}, line {number}: [{node[1]}] {problem}")
                axes[axis][node[1].lower()] = node[2].strip()
            elif line:
                raise InvalidInput(f"{path}, line {number}: neither a section nor a node `[code] label`")
        missing = [name for name, nodes in zip(AXES, axes, strict=True) if not nodes]
        if missing:
            raise InvalidInput(f"{path} has no section {', '.join(missing)}; is it the complete code tree?")
        return cls(axes, str(path))

    def branching(self, code: str) -> list[int]:
        """Return the number of siblings, itself included, of each of the 13 digits of a true code; 1 below a leaf.

        Raises InvalidInput, naming axis and digit, if the tree lacks the code.
        """
        branches = []
        for axis, columns in enumerate(AXIS_SLICES):
            path = code_digits(code)[columns]
            for depth, digit in enumerate(path):
                count = self._children[axis].get(path[:depth], 0)
                if path[: depth + 1] not in self.axes[axis] and (count or digit != "0"):
                    raise InvalidInput(
                        f"{code}: {self.source} has no {AXES[axis]} {path[: depth + 1]} "
                        f"(digit {depth + 1} of {path}); is it the tree of this labelling?"
                    )
                branches.append(count or 1)
        return branches

    def words(self, code: str) -> str:
        """Return a code's path in words, axis after axis: "x-ray, plain radiography | sagittal | ...".

        Raises InvalidInput if the tree lacks the code.
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
    """Return the reason why a node is not valid after `nodes`, None if it is."""
    if len(node) > longest:
        return f"has more than the {longest} digits of its axis"
    if node in nodes:
        return "is repeated"
    if node[:-1] and node[:-1] not in nodes:
        return f"has no parent [{node[:-1]}] above it"
    digit = DIGITS.index(node[-1])
    if digit and node[:-1] + DIGITS[digit - 1] not in nodes:
        return f"leaves a gap: [{node[:-1] + DIGITS[digit - 1]}] is missing before it"
    return None
