"""Likeness and outliers in the answers of a search."""

import shutil
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from cbir.search import Answer, Request, Searcher, Stopwatch
from cbir.search.searched_vectors import _scales_of
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.limited_collection import LimitedCollection
from cbir.store.records.filter_conditions import parse_filter
from tests.cbir.store.conftest import entry

COUNT = 150


@pytest.fixture(scope="module", params=[False, True], ids=["no snapshot", "snapshot"])
def searcher(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    made = Collection.create(tmp_path_factory.mktemp("likeness") / "collection", profiles.get("tamura"))
    with made.writer() as writer:
        writer.add([entry(number) for number in range(COUNT)])
        if request.param:
            writer.finish()
    return Searcher(made, Settings())


def test_an_image_of_the_collection_does_not_count_itself(searcher: Searcher) -> None:
    gallery = searcher.collection.view().gallery
    vectors = gallery.vectors(np.arange(COUNT))
    apart = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    nearest = apart.min(axis=1)
    for row in (0, 70, 149):
        number = int(gallery.ids[row])
        image_id = searcher.collection.image_ids()[number]
        query = searcher.by_id(image_id, Request(k=1), Stopwatch()).query
        expected = (1 + np.count_nonzero(nearest >= nearest[row] - 1e-4)) / (1 + COUNT)
        assert query.likeness == pytest.approx(expected, abs=2 / COUNT)
        assert query.outlier is False


def test_an_image_unlike_all_others_is_an_outlier_for_every_method(searcher: Searcher) -> None:
    far = -10.0 * np.ones(6)
    for method in ("none", "auto", "eprf"):
        query = searcher.by_examples([], Request(rerank=method), Stopwatch(), vectors=far).query
        assert query.likeness == pytest.approx(1 / (1 + COUNT))
        assert query.outlier is True


def test_the_most_like_of_several_examples_counts(searcher: Searcher) -> None:
    far = -10.0 * np.ones(6)
    image_id = searcher.collection.image_ids()[5]
    request = Request(examples=[image_id])
    assert searcher.by_examples([], request, Stopwatch(), vectors=far).query.outlier is False


def test_without_an_answer_there_is_no_likeness(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "one", profiles.get("tamura")) as made:
        searcher = Searcher(made, Settings())
        with made.writer() as writer:
            writer.add([entry(1)])
        answer = searcher.by_examples([], Request(), Stopwatch(), vectors=np.ones(6))
        assert (answer.query.likeness, answer.query.outlier) == (None, None)


def test_without_learned_directions_lengths_count(tmp_path: Path) -> None:
    """Few images of an encoder have vectors of length 1, so that a foreign one is as far as all others."""
    random = np.random.default_rng(0)
    with Collection.create(tmp_path / "few", profiles.get("lite0")) as made:
        vectors = random.normal(5.0, 1.0, (120, 1008)).astype(np.float32)
        records = [entry(number)[0] for number in range(120)]
        with made.writer() as writer:
            writer.add(list(zip(records, vectors, strict=True)))
            writer.finish()
            assert writer.delete(list(made.image_ids().values())[7:8])
        searcher = Searcher(made, Settings())
        like = searcher.by_examples([], Request(), Stopwatch(), vectors=random.normal(5.0, 1.0, 1008)).query
        foreign = searcher.by_examples(
            [], Request(), Stopwatch(), vectors=random.normal(5.0, 4.0, 1008)
        ).query
        assert (like.outlier, foreign.outlier) == (False, True)
        assert foreign.likeness == pytest.approx(1 / 120)


def test_for_a_limited_caller_visible_images_alone_count(searcher: Searcher, tmp_path: Path) -> None:
    """The least likeness would tell the number of all images."""
    folder = tmp_path / "limited"
    shutil.copytree(searcher.collection.folder, folder)
    with Collection(folder) as whole:
        ids = list(whole.image_ids().values())
        with whole.writer() as writer:
            for image_id in ids[:40]:
                writer.set_labels(image_id, {"ward": "a"})
        limited = LimitedCollection(whole, [parse_filter("ward=a")])
        far = -10.0 * np.ones(6)
        query = Searcher(limited, Settings()).by_examples([], Request(), Stopwatch(), vectors=far).query
        assert query.likeness == pytest.approx(1 / (1 + 40))
        gallery, rows = limited.view().gallery, limited.view().rows
        assert rows is not None
        vectors = gallery.vectors(rows)
        apart = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
        np.fill_diagonal(apart, np.inf)
        nearest = apart.min(axis=1)
        image_id = limited.image_ids()[int(gallery.ids[rows[7]])]
        like = Searcher(limited, Settings()).by_id(image_id, Request(k=1), Stopwatch()).query.likeness
        assert like == pytest.approx((1 + np.count_nonzero(nearest >= nearest[7] - 1e-4)) / (1 + 40))


def test_a_view_whose_vectors_are_read_does_not_hold_up_others(searcher: Searcher, tmp_path: Path) -> None:
    view = searcher.collection.view()
    with _scales_of(view).lock:
        random = np.random.default_rng(0)
        with Collection.create(tmp_path / "other", profiles.get("lite0")) as made, made.writer() as writer:
            vectors = random.normal(5.0, 1.0, (4, 1008)).astype(np.float32)
            writer.add([(entry(number)[0], vector) for number, vector in enumerate(vectors)])
            writer.finish()
            other = Searcher(made, Settings())
            answers: list[Answer] = []

            def search() -> None:
                answers.append(other.by_examples([], Request(), Stopwatch(), vectors=vectors[0]))

            thread = Thread(target=search, daemon=True)
            thread.start()
            thread.join(10)
    assert [answer.query.likeness for answer in answers] == [1.0]
