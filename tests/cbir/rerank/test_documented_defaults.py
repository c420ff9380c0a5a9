"""Defaults in docs/rerank.md and docs/feedback.md against those of the code."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cbir import rerank
from cbir.rerank.feedback import Feedback

DOCS = Path(__file__).parents[3] / "docs"
NAMES = re.compile(r"`(\w+)`")
STATED = re.compile(r"`(\w+)` \(([\d.,]+)\)")  # `P` (6)
SET = re.compile(r"(?<![\w-])(\w+)=([\d.]+)")  # `T1=3 T2=3`
AS_IN_OTHERS = ("fuzzy-eprf", "diffusion-eprf", "nprf", "aqe")  # their sections leave out what others state
SETS = ("fuzzy-eprf", "diffusion-eprf")  # whose sections list what differs from other methods


def number(text: str) -> float | str:
    text = text.strip().replace("20,000", "20000")
    return text if text == "auto" else float(text)


def defaults_in(section: str, name: str) -> Iterator[tuple[str, float | str]]:
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 3 and NAMES.match(cells[1]):
            names = NAMES.findall(cells[1])
            values = cells[2].split(", ") if len(names) > 1 and "," in cells[2] else [cells[2]] * len(names)
            yield from zip(names, map(number, values), strict=True)
    for parameter, value in [*STATED.findall(section), *(SET.findall(section) if name in SETS else ())]:
        yield parameter, number(value)


def documented() -> Iterator[tuple[str, str, float | str]]:
    for section in (DOCS / "rerank.md").read_text("utf-8").split("\n## ")[1:]:
        for name in section.split("\n", 1)[0].split(", "):
            if name in rerank.names():
                yield from ((name, *each) for each in defaults_in(section, name))
    for parameter, value in STATED.findall((DOCS / "feedback.md").read_text("utf-8")):
        yield Feedback.name, parameter, number(value)


DOCUMENTED = tuple(documented())


@pytest.mark.parametrize(("name", "parameter", "default"), DOCUMENTED)
def test_the_default_is_that_of_the_code(name: str, parameter: str, default: float | str) -> None:
    parameters = Feedback().parameters if name == Feedback.name else rerank.get(name).parameters
    assert parameters[parameter] == default


def test_every_parameter_has_its_default_in_the_documents() -> None:
    stated = {(name, parameter) for name, parameter, _ in DOCUMENTED}
    for name in rerank.names():
        if name not in AS_IN_OTHERS:
            assert {(name, parameter) for parameter in rerank.get(name).parameters} <= stated, name
