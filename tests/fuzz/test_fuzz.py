"""A short run of the fuzz targets on their corpus and changed files of it."""

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fuzz import campaign
from tests.fuzz.mutations import mutate
from tests.fuzz.targets import TARGETS, Function, FuzzTarget

SECONDS = 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TARGETS if name != "pdus"])
def test_nothing_but_documented_errors(name: str) -> None:
    outcome = campaign.fuzz(TARGETS[name], SECONDS)
    assert not outcome.findings, list(outcome.findings)


@pytest.mark.slow
@pytest.mark.pacs
def test_the_receiver_survives_any_bytes() -> None:
    outcome = campaign.fuzz(TARGETS["pdus"], SECONDS)
    assert not outcome.findings, list(outcome.findings)


@contextmanager
def defective() -> Iterator[Function]:
    """Fail in one way or another, by the length of the input."""
    sizes: list[bytes] = []

    def function(data: bytes) -> None:
        if b"=" in data:
            return
        if len(data) % 3 == 0:
            time.sleep(10)
        elif len(data) % 3 == 1:
            os.abort()
        else:
            sizes.append(bytes(10**9))

    yield function


@pytest.mark.slow
def test_defects_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "MOST_FINDINGS", 8)  # by the seed, of all three kinds
    outcome = campaign.fuzz(FuzzTarget("filters", defective, seconds=0.3, memory=2**28, longest=100), 1.5)
    reasons = {place.partition(":")[0].partition(" (")[0] for place in outcome.findings}
    assert reasons == {
        "the process took too long",
        "the process ended with -6",
        "MemoryError in test_fuzz.py, function",
    }
    assert all(b"=" not in data for data in outcome.findings.values())


def test_every_target_has_a_small_corpus() -> None:
    files = [file for name in TARGETS for file in (campaign.CORPUS / name).iterdir()]
    assert {file.parent.name for file in files} == set(TARGETS)
    assert sum(file.stat().st_size for file in files) < 300_000


def test_mutations_depend_on_the_seed_alone() -> None:
    corpus = campaign.read_corpus("filters")

    def some(seed: int) -> list[bytes]:
        rng = random.Random(seed)
        return [mutate(corpus[0], corpus, (b"=",), 100, rng) for _ in range(50)]

    assert some(1) == some(1) != some(2)
    assert all(len(data) <= 100 for data in some(1))
