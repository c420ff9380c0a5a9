"""IRMA codes `TTTT-DDD-AAA-BBB`: technique, direction, anatomy, biological system (Lehmann et al. 2003)."""

import re
from itertools import accumulate

from cbir.errors import InvalidInput

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
