"""Small collections of made-up vectors: these tests are about keeping them, not about pictures."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cbir.store import Collection, Record
from cbir.store import profile as profiles
from cbir.store.writer import Entry

MakeEntries = Callable[..., list[Entry]]


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    """An empty collection of Tamura vectors (6 values)."""
    return Collection.create(tmp_path / "collection", profiles.get("tamura"))


@pytest.fixture
def entries() -> MakeEntries:
    """A function that makes entries numbered start..stop-1, always the same for the same number."""

    def make(start: int, stop: int, patient: str | None = None, **labels: str) -> list[Entry]:
        return [entry(number, patient, labels) for number in range(start, stop)]

    return make


def entry(number: int, patient: str | None = None, labels: dict[str, str] | None = None) -> Entry:
    """The entry with that number."""
    content_hash = hashlib.blake2b(str(number).encode(), digest_size=16).hexdigest()
    record = Record(
        content_hash=content_hash,
        source=f"/images/{number}.png",
        source_stamp="1",
        format="png",
        width=10,
        height=20,
        patient_key=patient,
        labels=labels or {},
    )
    return record, np.random.default_rng(number).normal(5.0, 2.0, 6).astype(np.float32)
