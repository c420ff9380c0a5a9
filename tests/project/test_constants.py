"""The table of the papers' constants in docs/constants.md against the code."""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cbir import rerank
from cbir.rerank.reranker import ParameterSet

PAGE = Path(__file__).parents[2] / "docs" / "constants.md"
PLACE = re.compile(r"`([\w.]+):(\w+)(?:\.(\w+)|\[(\w+)\])?`")


class Constant(NamedTuple):
    """A row of the table: the values of the paper and of the code as text, and where the code has its own."""

    meaning: str
    paper: str
    default: str
    module: str
    owner: str
    name: str
    key: str


def constants() -> Iterator[Constant]:
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        place = PLACE.fullmatch(cells[-1])
        if place:
            module, owner, name, key = place.groups()
            yield Constant(cells[1], cells[2], cells[3], module, owner, name or "", key or "")


CONSTANTS = tuple(constants())


def default_of(constant: Constant) -> Any:
    owner = getattr(importlib.import_module(constant.module), constant.owner)
    if constant.key:
        return owner[constant.key]
    if not constant.name:
        return owner
    if dataclasses.is_dataclass(owner):
        return {field.name: field.default for field in dataclasses.fields(owner)}[constant.name]
    return inspect.signature(owner).parameters[constant.name].default


def ids(constant: Constant) -> str:
    return f"{constant.owner}.{constant.name or constant.key}".rstrip(".")


@pytest.mark.parametrize("constant", CONSTANTS, ids=ids)
def test_the_default_is_that_of_the_code(constant: Constant) -> None:
    default = default_of(constant)
    values = default if isinstance(default, tuple) else (default,)
    assert [float(value) for value in values] == [float(text) for text in constant.default.split(", ")]


OF_RERANKERS = tuple(each for each in CONSTANTS if each.module.startswith("cbir.rerank."))


@pytest.mark.parametrize("constant", OF_RERANKERS, ids=ids)
def test_the_value_of_the_paper_is_that_of_the_preset(constant: Constant) -> None:
    kind = getattr(importlib.import_module(constant.module), constant.owner)
    assert float(rerank.get(kind.name, preset="paper").parameters[constant.name]) == float(constant.paper)


def test_every_value_of_a_preset_is_in_the_table_or_of_no_paper() -> None:
    """What the table lacks is our own: with a preset it is off, or as it is by default."""
    listed = {(each.owner, each.name) for each in OF_RERANKERS}
    for kind in rerank.RERANKERS:
        owner = next((base.__name__ for base in kind.__mro__ if "paper" in vars(base)), "")
        defaults = kind().parameters
        for name, value in kind.paper.items():
            assert (owner, name) in listed or value in (0.0, defaults[name]), (kind.name, name)
    assert not ParameterSet.paper
    assert {kind.name for kind in rerank.RERANKERS if not kind.paper} == {
        "none",
        "fuzzy-eprf",
        "diffusion-eprf",
    }
