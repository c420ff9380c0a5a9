"""Cohorts of an open collection: rounds, the estimate, and what cannot be asked."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.special import logit

import cbir
from cbir import settings
from cbir.api.collection_search import OpenCollection
from cbir.errors import InvalidInput, NotFound
from cbir.gallery.vector_blocks import Floats, VectorBlocks
from cbir.search import Searcher
from cbir.search.cohorts.cohort_pool import (
    NO_COMPANIONS,
    CohortPool,
    Companions,
    RelevanceModel,
    learn_relevance,
    likeness_margins,
)
from cbir.search.cohorts.cohort_round import DRY, LIKENESS, CohortRound, start_round
from cbir.search.cohorts.missing_images import JudgedImage, estimate_missing
from tests.cbir.search.cohorts.drawn_collection import GROUPS, draw, labels_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw(tmp_path_factory.mktemp("cohorts") / "collection")


@pytest.fixture
def db(folder: Path) -> Iterator[OpenCollection]:
    with cbir.open(folder) as opened:
        yield opened


def judge_group(db: OpenCollection, group: str, rounds: int, count: int = 12) -> tuple[int, int, int]:
    """Judge by the label; return how many were judged until 90 % was found, found at last, and missing."""
    labels = labels_of(db.collection)
    members = [image_id for image_id, label in labels.items() if label == group]
    cohort, cost = db.cohort(members[:2]), 0
    for _ in range(rounds):
        cohort.judge({image.image_id: labels[image.image_id] == group for image in cohort.next(count)})
        if not cost and len(cohort.found) >= 0.9 * len(members):
            cost = len(cohort.judged)
    return cost, len(cohort.found), round(cohort.missing().missing)


def test_a_group_is_found_after_a_third_of_random_order(db: OpenCollection) -> None:
    cost, found, missing = judge_group(db, "rare", 12)
    images = sum(GROUPS.values())
    assert 0 < cost < 0.9 * images / 3
    assert GROUPS["rare"] - found <= 2
    assert missing <= 4


def test_a_large_cohort_is_complete_soon_after_the_last_find() -> None:
    found = [JudgedImage(str(n), True, 0.9) for n in range(1000)]
    early = [JudgedImage(f"early {n}", True, 0.1) for n in range(3)]
    assert estimate_missing(found + early, 2.0, 9000).advice != "complete"
    assert estimate_missing(found + early + improbable_images(150, []), 2.0, 9000).advice == "complete"


def test_what_came_of_the_last_images_corrects_the_sum() -> None:
    found = [JudgedImage(str(n), True, 0.9) for n in range(100)]
    wrong = [JudgedImage(f"wrong {n}", False, 0.1) for n in range(96)]
    right = [JudgedImage(f"right {n}", n % 10 == 0, 0.1) for n in range(96)]
    assert estimate_missing(found + wrong, 30.0, 9000).missing < 8
    assert estimate_missing(found + right, 30.0, 9000).missing > 25


def test_the_interval_narrows_around_the_truth(db: OpenCollection) -> None:
    labels = labels_of(db.collection)
    members = [image_id for image_id, label in labels.items() if label == "near"]
    cohort, covered, widths = db.cohort(members[:3]), [], []
    for _ in range(14):
        missing, truth = cohort.missing(), len(members) - len(cohort.found)
        covered.append(missing.low <= truth <= missing.high)
        widths.append(missing.high - missing.low)
        cohort.judge({image.image_id: labels[image.image_id] == "near" for image in cohort.next(12)})
    assert sum(covered[1:]) >= 12
    assert widths[-1] < widths[1] / 3


def test_the_same_judgements_give_the_same_images(db: OpenCollection) -> None:
    members = list(labels_of(db.collection))[:3]
    assert db.cohort(members).next(24) == db.cohort(members).next(24)


def test_conditions(db: OpenCollection) -> None:
    labels = labels_of(db.collection)
    first = next(iter(labels))
    batch = db.cohort([first], where="label=rare").next(100)
    assert {labels[image.image_id] for image in batch} == {"rare"}
    assert len(batch) == GROUPS["rare"] - 1


def test_an_index_finds_a_group_too(folder: Path, tmp_path: Path) -> None:
    own = draw(tmp_path / "collection")
    with cbir.open(own, index="hnsw", indexed_candidates=60, device="cpu") as db:
        searcher = db._searcher
        assert searcher.vector_index is not None
        searcher.vector_index.follower.follow()
        view = db.collection.view
        db.collection.view = None  # type: ignore[assignment,method-assign]  # no round may load all vectors
        cost, found, _ = judge_group(db, "rare", 10)
        db.collection.view = view  # type: ignore[method-assign]
    assert 0 < cost < 150
    assert found >= 0.9 * GROUPS["rare"]


@pytest.mark.parametrize("irrelevant", [0, 1])
def test_a_collection_of_few_images(tmp_path: Path, irrelevant: int) -> None:
    with cbir.open(draw(tmp_path / "collection")) as db:
        ids = list(labels_of(db.collection))
        cohort = db.cohort(ids[: len(ids) - irrelevant], ids[len(ids) - irrelevant :])
        assert cohort.next() == []
        assert cohort.missing()[1:] == (0.0, 0, 0)
        assert cohort.missing().advice == "complete"


def test_refusals(db: OpenCollection) -> None:
    first = next(iter(labels_of(db.collection)))
    with pytest.raises(NotFound, match="no image"):
        db.cohort(["0" * 32])
    with pytest.raises(InvalidInput, match="an image that belongs"):
        db.cohort([], [first]).next()
    with pytest.raises(InvalidInput, match="at least 1"):
        db.cohort([first]).next(0)
    with pytest.raises(InvalidInput, match="one of csv"):
        db.cohort([first]).export("xml")


def test_deleted_images_leave_a_cohort(tmp_path: Path) -> None:
    folder = draw(tmp_path / "collection")
    with cbir.open(folder) as db:
        ids = list(labels_of(db.collection))
        judged = [JudgedImage(ids[0], True), JudgedImage(ids[1], True), JudgedImage(ids[40], False)]
        with db.collection.writer() as writer:
            writer.delete([ids[1]])
        current = start_round(Searcher(db.collection, settings.load()), judged)
        assert [image.image_id for image in current.judged] == [ids[0], ids[40]]
        assert current.pool.total == len(ids) - 1
        assert ids[1] not in [image.image_id for image in db.cohort(ids[:1]).next(200)]


def test_equal_vectors_and_huge_values() -> None:
    alike = np.ones((5, 3), np.float32)
    model = learn_relevance(alike[:1], alike[:0], alike)
    assert np.isfinite(model.probabilities(VectorBlocks((alike,)))).all()
    huge = np.array([[1e15, 0], [0, 1e15], [1e15, 1]], np.float32)
    probabilities = learn_relevance(huge[:1], huge[1:2], huge[:0]).probabilities(VectorBlocks((huge,)))
    assert probabilities[0] > 0.5 > probabilities[1]


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0, 1)), max_size=60),
    st.floats(0, 1e6),
    st.integers(0, 10**6),
)
def test_an_estimate_is_within_what_is_left(
    judged: list[tuple[bool, float]], expected: float, unjudged: int
) -> None:
    images = [JudgedImage(str(n), relevant, chance) for n, (relevant, chance) in enumerate(judged)]
    missing = estimate_missing(images, expected, unjudged)
    assert 0 <= missing.low <= missing.high <= unjudged
    assert 0 <= missing.missing <= unjudged
    assert 0 <= missing.recall_low <= missing.recall <= 1
    assert missing.found == sum(relevant for relevant, _ in judged)


def test_strays_that_turned_up_widen_the_interval() -> None:
    judged = [JudgedImage(str(n), True, 0.9) for n in range(100)]
    quiet = judged + [JudgedImage(f"q{n}", False, 0.02) for n in range(200)]
    stray = judged + [JudgedImage(f"q{n}", n % 20 == 0, 0.02) for n in range(200)]
    assert estimate_missing(stray, 2.0, 5000).high > 2 * estimate_missing(quiet, 2.0, 5000).high


def improbable_images(count: int, strays: Sequence[int]) -> list[JudgedImage]:
    """Return improbable images, of which those at the places `strays` are relevant."""
    return [JudgedImage(f"improbable {place}", place in strays, 0.001) for place in range(count)]


def test_strays_that_turn_up_late_widen_the_interval() -> None:
    found = [JudgedImage(str(n), True, 0.9) for n in range(40)]
    early = estimate_missing(found + improbable_images(900, range(0, 100, 10)), 0.5, 9000)
    steady = estimate_missing(found + improbable_images(900, range(0, 900, 90)), 0.5, 9000)
    assert early.found == steady.found == 50
    assert steady.high > 1.5 * early.high


@pytest.mark.parametrize("length", [60, 250, 800])
def test_the_interval_holds_strays_however_fast_they_turn_up(length: int) -> None:
    """Places are drawn from an exponential distribution; what was not judged is missing."""
    random, judged, held = np.random.default_rng(length), 1000, 0
    found = [JudgedImage(str(n), True, 0.9) for n in range(40)]
    for _ in range(30):
        places = random.exponential(length, 20).astype(int)
        estimate = estimate_missing(
            found + improbable_images(judged, places[places < judged].tolist()), 0.1, 9000
        )
        missing = len(np.unique(places)) - (estimate.found - len(found))
        held += estimate.low <= missing <= estimate.high
    assert held >= 24


def test_a_small_cohort_is_not_complete_because_nothing_was_found_lately() -> None:
    found = [JudgedImage(str(n), True, 0.9) for n in range(20)]
    estimate = estimate_missing(found + improbable_images(1000, []), 0.1, 9000)
    assert estimate.high >= 3
    assert estimate.advice != "complete"
    assert estimate_missing(found + improbable_images(1000, []), 0.1, 10).high < estimate.high


def test_margins_are_differences_of_squared_distances() -> None:
    random = np.random.default_rng(0)
    vectors, relevant, irrelevant = (
        random.standard_normal((count, 5)).astype(np.float32) for count in (3000, 4, 7)
    )
    near, far = cdist(vectors, relevant).min(axis=1) ** 2, cdist(vectors, irrelevant).min(axis=1) ** 2
    np.testing.assert_allclose(likeness_margins(vectors, relevant, irrelevant), (far - near) / 2, atol=1e-5)
    np.testing.assert_allclose(likeness_margins(vectors, relevant, irrelevant[:0]), -near / 2, atol=1e-5)


@pytest.mark.parametrize("likeness", [0.0, LIKENESS])
def test_images_like_single_examples_are_proposed(monkeypatch: pytest.MonkeyPatch, likeness: float) -> None:
    """Relevant images are in the middle of a ring, where no linear classifier can tell them.

    Likeness finds them in every round, and without it in rounds after nothing was found.
    """
    monkeypatch.setattr("cbir.search.cohorts.cohort_round.LIKENESS", likeness)
    random = np.random.default_rng(0)
    ring = random.standard_normal((900, 2))
    ring *= 3 / np.linalg.norm(ring, axis=1, keepdims=True)
    middle = random.standard_normal((6, 2)) / 10
    vectors = np.vstack([middle, ring]).astype(np.float32)
    numbers = np.arange(len(vectors))
    pool = CohortPool(numbers, VectorBlocks((vectors,)), None, np.ones(len(numbers)), len(numbers))
    judged = [JudgedImage(str(n), True) for n in range(3)]
    judged += [JudgedImage(str(n), False, 0.5) for n in range(6, 6 + DRY)]

    def middle_images(order: Sequence[JudgedImage]) -> set[int]:
        rows = np.array([int(image.image_id) for image in order])
        images = CohortRound(pool, order, rows).next_images()
        assert len({number for number, _, _ in images}) == len(images) == 24
        return {number for number, _, _ in images} & {3, 4, 5}

    assert middle_images(judged) == {3, 4, 5}
    assert middle_images(judged[3:] + judged[:3]) == ({3, 4, 5} if likeness else set())


def large_class_round() -> CohortRound:
    """Return a round after 60 relevant images of a class that has 300 of 3,000 images."""
    random = np.random.default_rng(0)
    vectors = random.standard_normal((3000, 8)).astype(np.float32)
    vectors[:300, 0] += 4
    numbers = np.arange(len(vectors))
    pool = CohortPool(numbers, VectorBlocks((vectors,)), None, np.ones(len(numbers)), len(numbers))
    return CohortRound(pool, [JudgedImage(str(n), True, 0.7) for n in range(60)], numbers[:60])


def test_what_images_stand_for_keeps_the_expected_number() -> None:
    """Of an index's pool, images of the sample stand for others."""
    pool = replace(large_class_round().pool, weights=np.linspace(1, 7, 3000), total=12_000)
    judged = [JudgedImage(str(n), n < 30) for n in range(40)]
    current = CohortRound(pool, judged, np.arange(40), Companions(np.arange(0, 3000, 5), 1.0))
    of_model = current.model.probabilities(pool.vectors, current.unjudged)
    assert np.argsort(of_model).tolist() != np.argsort(current.probabilities).tolist()
    weights = pool.weights[40:]
    assert weights @ current.probabilities == pytest.approx(weights @ of_model, rel=1e-3)


def test_images_that_are_not_compared_have_the_median_likeness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cbir.search.cohorts.cohort_round.COMPARED", 101)
    pool = large_class_round().pool
    current = CohortRound(pool, [JudgedImage(str(n), n < 30) for n in range(40)], np.arange(40))
    of_model = current.model.probabilities(pool.vectors, current.unjudged)
    added = logit(current.probabilities) - logit(of_model)
    order = np.argsort(-of_model)
    compared, others = added[order[:101]], added[order[101:]]
    assert np.ptp(compared) > 0.1
    np.testing.assert_allclose(others, np.median(compared), atol=1e-6)


@pytest.mark.parametrize("companions", [NO_COMPANIONS, Companions(np.arange(3000), 1.0)])
def test_one_patient_and_no_patient_change_nothing(companions: Companions) -> None:
    current = replace(large_class_round(), companions=companions)
    of_model = current.model.probabilities(current.pool.vectors, current.unjudged)
    np.testing.assert_array_equal(current.probabilities, of_model)


@pytest.mark.parametrize(("kept", "is_refused"), [([0], False), ([1], True), ([], True)])
def test_images_deleted_while_a_round_starts(
    db: OpenCollection, monkeypatch: pytest.MonkeyPatch, kept: list[int], is_refused: bool
) -> None:
    """The pool has those that are kept; without a relevant image it is refused like a cohort without one."""
    judged = [JudgedImage(each, place == 0) for place, each in enumerate(list(labels_of(db.collection))[:2])]
    numbers = db.collection.numbers_of([judged[place].image_id for place in kept])
    vectors = VectorBlocks((np.ones((len(kept), 6), np.float32),))
    pool = CohortPool(numbers, vectors, None, np.ones(len(kept)), len(kept))
    monkeypatch.setattr("cbir.search.cohorts.cohort_round.collect_pool", lambda *_: pool)
    searcher = Searcher(db.collection, settings.load())
    if is_refused:
        with pytest.raises(InvalidInput, match="an image that belongs"):
            start_round(searcher, judged)
    else:
        assert start_round(searcher, judged).judged == judged[:1]


@pytest.mark.parametrize(("irrelevant", "background"), [(0, 200), (50, 400), (900, 1000)])
def test_random_images_are_more_once_many_are_not_relevant(
    monkeypatch: pytest.MonkeyPatch, irrelevant: int, background: int
) -> None:
    trained = []

    def learn(relevant: Floats, others: Floats, random: Floats) -> RelevanceModel:
        trained.append((len(relevant), len(others), len(random)))
        return learn_relevance(relevant, others, random)

    monkeypatch.setattr("cbir.search.cohorts.cohort_round.learn_relevance", learn)
    pool = large_class_round().pool
    judged = [JudgedImage(str(n), n < 60) for n in range(60 + irrelevant)]
    assert CohortRound(pool, judged, np.arange(len(judged))).model
    assert trained == [(60, irrelevant, background)]
