"""Fitted spaces are kept, so that a filter costs one fit and not one a query."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

import numpy as np
import pytest

from cbir import settings
from cbir.errors import QueryCancelled
from cbir.gallery import gallery as module
from cbir.gallery.gallery import Gallery
from cbir.gallery.vector_blocks import KEPT, SAMPLE, fit_space
from cbir.search import Request, Searcher
from cbir.store import Collection, Record
from cbir.store.base import profile as profiles
from cbir.store.limited_collection import LimitedCollection
from cbir.store.records.filter_conditions import parse_filter
from cbir.system.threads import time_limit

VECTORS = np.random.default_rng(0).standard_normal((SAMPLE + 500, 12)).astype(np.float32)


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of vectors of each fit."""
    counted: list[int] = []

    def counting(vectors, parts=()):
        counted.append(len(vectors))
        return fit_space(vectors, parts)

    monkeypatch.setattr(module, "fit_space", counting)
    return counted


@pytest.fixture
def gallery() -> Gallery:
    return Gallery((VECTORS,), np.arange(len(VECTORS)))


def test_the_same_rows_are_fitted_once(gallery, fits):
    rows = np.arange(0, 3000, 2)
    spaces = [gallery.space_of(rows) for _ in range(5)]
    assert fits == [1500]
    assert all(space is spaces[0] for space in spaces)
    np.testing.assert_array_equal(spaces[0].projection, fit_space(VECTORS[rows]).projection)
    assert gallery.space_of(rows + 1) is not spaces[0]
    assert gallery.space_of(np.arange(len(VECTORS))) is not spaces[0]
    assert fits == [1500, 1500, SAMPLE]


def test_only_the_spaces_used_last_are_kept(gallery, fits):
    for stop in range(2, KEPT + 2):
        gallery.space_of(np.arange(stop))
    gallery.space_of(np.arange(2))
    gallery.space_of(np.arange(100))
    assert len(fits) == KEPT + 1
    gallery.space_of(np.arange(2))
    assert len(fits) == KEPT + 1
    gallery.space_of(np.arange(3))
    assert len(fits) == KEPT + 2


def test_threads_that_need_one_space_fit_it_once(gallery, fits):
    with ThreadPoolExecutor(8) as threads:
        spaces = list(threads.map(lambda _: gallery.space_of(np.arange(4000)), range(32)))
    assert len(fits) == 1
    assert len({id(space) for space in spaces}) == 1


def test_the_fit_of_a_cancelled_query_serves_the_next(gallery, monkeypatch):
    slow_fits = []

    def slow(vectors, parts=()):
        slow_fits.append(len(vectors))
        sleep(0.5)
        return fit_space(vectors, parts)

    monkeypatch.setattr(module, "fit_space", slow)
    with pytest.raises(QueryCancelled), time_limit(0.1):
        gallery.space_of(np.arange(50))
    gallery.space_of(np.arange(50))
    assert slow_fits == [50]


def test_a_filter_costs_no_fit_and_a_limited_collection_one(tmp_path: Path, fits):
    generator = np.random.default_rng(1)
    entries = [
        (
            Record(
                f"{n:032x}",
                f"/{n}.png",
                "1",
                "png",
                9,
                9,
                labels={"site": "AB"[n % 5 == 0]},
                patient_key=f"p{n // 2}",
            ),
            generator.normal(size=6).astype(np.float32),
        )
        for n in range(400)
    ]
    with Collection.create(tmp_path / "collection", profiles.get("tamura")) as collection:
        with collection.writer() as writer:
            ids = writer.add(entries).ids
            writer.finish()
        limited = LimitedCollection(collection, [parse_filter("site=B")])
        for searched, where, expected in (
            (collection, ["site=B"], []),
            (limited, [], [80]),
            (limited, ["site=B"], [80]),
        ):
            searcher = Searcher(searched, settings.load(device="cpu"))
            for number in range(0, 100, 5):
                raw = collection.vector(ids[number])
                request = Request(k=5, rerank="diffusion", where=where, exclude_patient_key=f"p{number // 2}")
                ranked = searcher.rank(raw, f"{number:032x}", request)
                assert len(ranked.numbers) == 5
                assert all((n - 1) % 5 == 0 and n - 1 != number for n in ranked.numbers)
            assert fits == expected
        limited.close()
