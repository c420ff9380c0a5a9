"""A collection in PostgreSQL beyond `exact_limit`, where a vector index stands for the snapshot."""

import numpy as np
import pytest

from cbir.evaluation.auto_choice import update_choice
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.index.open_index import open_index
from cbir.store.postgresql.postgresql_address import files_folder
from tests.cbir.store.conftest import entry

pytestmark = pytest.mark.slow
LIMIT = 20


@pytest.fixture
def collection(address, monkeypatch):
    monkeypatch.setenv("CBIR_INDEX", "hnsw")
    monkeypatch.setenv("CBIR_EXACT_LIMIT", str(LIMIT))
    with Collection.create(files_folder(address), profiles.get("tamura")) as created:
        yield created


def snapshot_files(collection):
    return [path.name for path in (collection.folder / "snapshots").iterdir()]


def test_no_snapshot_is_written_beyond_the_limit(collection):
    with collection.writer() as writer:
        writer.add([entry(number, patient=f"{number % 5}" * 32) for number in range(LIMIT)])
        writer.finish()
        assert snapshot_files(collection)
        fitted = collection.statistics()
        writer.add([entry(number) for number in range(LIMIT, 2 * LIMIT)])
        assert collection.snapshot_is_due()  # the old one is to go
        writer.finish()
        assert not snapshot_files(collection)
        assert not (collection.folder / "snapshot.json").exists()
        assert collection.statistics() == fitted or np.array_equal(collection.statistics().mean, fitted.mean)
        writer.add([entry(99)])
        writer.finish()
        assert not collection.snapshot_is_due()
        assert not collection.build_due_snapshot()
        assert update_choice(collection, writer).images is None  # loads nothing
        assert writer.erase_patient(["1" * 32]) == 4
    assert not snapshot_files(collection)
    assert collection.statistics().fitted_on == 19  # every second of 37
    index = open_index(collection, Settings(index="hnsw", exact_limit=LIMIT))
    assert index.follower.follow()
    assert (index.status().images, index.status().behind) == (37, 0)


def test_the_first_statistics_are_fitted_without_loading_all(collection):
    with collection.writer() as writer:
        writer.add([entry(number) for number in range(3 * LIMIT)])
        writer.finish()
    assert not snapshot_files(collection)
    assert collection.statistics().fitted_on == LIMIT


def test_one_is_written_again_without_an_index(collection, monkeypatch):
    with collection.writer() as writer:
        writer.add([entry(number) for number in range(3 * LIMIT)])
        writer.finish()
        monkeypatch.setenv("CBIR_INDEX", "flat")
        assert collection.snapshot_is_due()
        assert collection.build_due_snapshot()
    assert collection.view().snapshot is not None
