"""Diffusion behind filters: relevance flows through all images that the caller may see, and through no others."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cbir import rerank, settings
from cbir.gallery.gallery import rank
from cbir.search import Request, Searcher
from cbir.store import Collection
from cbir.store.limited_collection import LimitedCollection
from cbir.store.records.filter_conditions import parse_filter

SETTINGS = settings.load(device="cpu")
QUERY, WHERE = 1, "tag=1"


@pytest.fixture
def filled(collection: Collection, entries) -> Collection:
    """200 images with a snapshot: every fourth is secret, every third has the tag."""
    made = [
        entries(number, number + 1, secret=str(number % 4 == 3), tag=str(int(number % 3 == 0)))[0]
        for number in range(200)
    ]
    with collection.writer() as writer:
        writer.add(made)
        writer.finish()
    return collection


def search(collection: Collection, where: str | None = WHERE) -> dict[int, float]:
    """Return the scores of all answers by image number."""
    record = collection.records([QUERY])[QUERY]
    request = Request(k=200, rerank="diffusion", where=[where] if where else [])
    ranked = Searcher(collection, SETTINGS).rank(
        collection.vector(record.image_id), record.content_hash, request
    )
    return dict(zip(ranked.numbers.tolist(), ranked.scores.tolist(), strict=True))


@pytest.mark.parametrize("limit", [[], ["secret=False"]])
def test_relevance_flows_through_all_visible_images_and_no_others(
    filled: Collection, limit: list[str]
) -> None:
    view, vector = filled.view(), filled.vector(filled.records([QUERY])[QUERY].image_id)
    rows = np.arange(200)
    visible = rows[(rows > 0) & ((rows % 4 != 3) | (not limit))]  # the query is row 0
    tagged = visible[visible % 3 == 0]
    query = view.statistics.normalise(vector)
    ranking = replace(rank(query, view.gallery, tagged), passable=visible)
    expected = rerank.get("diffusion")(query, ranking, view.gallery).scores
    limited = LimitedCollection(filled, [parse_filter(text) for text in limit])
    found = search(limited)
    limited.close()
    assert sorted(found) == view.gallery.ids[tagged].tolist()
    np.testing.assert_allclose([found[int(number)] for number in view.gallery.ids[tagged]], expected)


@pytest.mark.parametrize("where", [WHERE, None])
def test_nothing_flows_through_images_that_the_caller_may_not_see(
    filled: Collection, tmp_path: Path, where: str | None
) -> None:
    with Collection(Path(shutil.copytree(filled.folder, tmp_path / "without"))) as without:
        secret = without.matching_numbers([parse_filter("secret=True")]).tolist()
        with without.writer() as writer:
            writer.delete([record.image_id for record in without.records(secret).values()])
        limited = LimitedCollection(filled, [parse_filter("secret=False")])
        found = search(limited, where)
        limited.close()
        assert found == search(without, where)
    assert not set(secret) & set(found)
