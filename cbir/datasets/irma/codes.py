"""IRMA codes `TTTT-DDD-AAA-BBB`: technique, direction, anatomy, biological system (Lehmann et al. 2003)."""

import re
from itertools import accumulate

from cbir.errors import InvalidInput

AXES = ("technique", "direction", "anatomy", "biosystem")
LENGTHS = (4, 3, 3, 3)
AXIS_SLICES = tuple(slice(end - length, end) for end, length in zip(accumulate(LENGTHS), LENGTHS, strict=True))
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
UNKNOWN = "****-***-***-***"  # don't know, on every axis
CLUTTER = "C"  # the true code of an image outside the labelling, which is not scored
FORM = re.compile(r"([0-9a-z*]{4})(-?)([0-9a-z*]{3})\2([0-9a-z*]{3})\2([0-9a-z*]{3})")


def parse_code(text: str, wildcards: bool = False) -> str:
    """The code in lower case with its hyphens; with or without them, in either case, it is the same code.

    Anything that begins with C is CLUTTER. With `wildcards`, `*` says don't know, and so does everything after
    it on its axis, which becomes `*` too. Raises InvalidInput where it is no code.
    """
    code = text.strip().lower()
    if code.startswith("c"):
        return CLUTTER
    found = FORM.fullmatch(code)
    if not found:
        raise InvalidInput(f"'{text.strip()}' is no IRMA code; codes look like 1121-120-942-700")
    parts = [found[group] for group in (1, 3, 4, 5)]
    if not wildcards:
        _check(text, parts)
    return "-".join(part.partition("*")[0].ljust(len(part), "*") for part in parts)


def _check(text: str, parts: list[str]) -> None:
    for axis, part in zip(AXES, parts, strict=True):
        if "*" in part:
            raise InvalidInput(f"'{text.strip()}' says don't know (*); only an answer may")
        if part.partition("0")[2].strip("0"):
            raise InvalidInput(f"'{text.strip()}': {axis} {part} goes on after 0, which ends the path")


def code_digits(code: str) -> str:
    """The 13 characters of a parsed code, without hyphens."""
    return code.replace("-", "")


def strip_zeros(image_id: str) -> str:
    """An image id without the zeros that some copies pad it with: 00003145 and 3145 are the same image."""
    image_id = image_id.strip()
    return image_id.lstrip("0") or "0" if image_id.isdecimal() else image_id
