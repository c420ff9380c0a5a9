"""The vector index of a collection follows it while `cbir receive` runs."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.index.open_index import open_index
from tests.indexer.receiving import receiver, send, slices

SETTINGS = Settings(index="hnsw")


def lacking(collection: Path) -> int | None:
    with Collection(collection) as opened:
        index = open_index(opened, SETTINGS)
        assert index is not None
        return index.status().lacking


def until(true: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.slow
def test_index_follows_while_images_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CBIR_INDEX", "hnsw")
    collection, sent = tmp_path / "collection", list(slices(9, 48))
    with receiver(collection) as started:
        assert send(started.port, sent[:6]) == [0] * 6
        started.stop()
    with Collection(collection) as opened:
        with opened.writer() as writer:
            writer.finish()  # fits the statistics, without which there is no index
        index = open_index(opened, SETTINGS)
        assert index is not None
        assert index.follower.follow()
    with receiver(collection) as started:
        assert send(started.port, sent[6:]) == [0] * 3
        until(lambda: lacking(collection) == 0)
        assert started.process.poll() is None
        started.stop()
    assert lacking(collection) == 0
