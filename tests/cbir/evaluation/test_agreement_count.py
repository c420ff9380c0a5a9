"""How often labels of answers agree rightly, against a count over all pairs."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from cbir import rerank
from cbir.evaluation.auto_choice import LEAST_LABELLED, update_choice
from cbir.evaluation.labelled_rows import LabelledRows, count_agreement, most_frequent, rising_blocks
from cbir.gallery.gallery import Gallery
from cbir.rerank import LEAST_IMAGES, AutoChoice, read_choice
from cbir.search import Request, Searcher, Stopwatch
from cbir.settings import Settings
from cbir.store import Collection
from tests.cbir.evaluation.test_auto_choice import filled
from tests.cbir.store.conftest import entry

Table = NDArray[np.int64]


def drawn(count: int, patients: int = 0) -> tuple[Gallery, LabelledRows]:
    """Return images of two kinds that overlap, some without a label; patients have one of each kind."""
    random = np.random.default_rng(0)
    kind = np.arange(count) % 2
    vectors = (random.normal(size=(count, 4)) + 1.5 * kind[:, None]).astype(np.float32)
    label = np.where(random.random(count) < 0.1, -1, kind)
    patient = np.arange(count) // 2 if patients else np.full(count, -1)
    gallery = Gallery((vectors,), np.arange(1, count + 1))
    return gallery, LabelledRows(np.arange(count), label, patient)


def count_by_hand(gallery: Gallery, labelled: LabelledRows) -> Table:
    """Count with every image of a label; images at the same place are no answers."""
    vectors, count = gallery.blocks[0], len(gallery)
    table = np.zeros((11, 2), np.int64)
    for i in np.flatnonzero(labelled.label >= 0):
        own = labelled.patient[i]
        distances = np.linalg.norm(vectors - vectors[i], axis=1)
        allowed = [j for j in range(count) if distances[j] > 0 and (own < 0 or labelled.patient[j] != own)]
        nearest = sorted(allowed, key=lambda j: float(distances[j]))[:10]
        counts = Counter(int(labelled.label[j]) for j in nearest if labelled.label[j] >= 0)
        value, agreeing = counts.most_common(1)[0]
        table[agreeing] += 1, value == labelled.label[i]
    return table


@pytest.mark.parametrize("patients", [0, 1])
def test_agreement_is_counted_as_by_hand(patients: int) -> None:
    gallery, labelled = drawn(120, patients)
    measured = count_agreement(gallery, {"kind": labelled}, rerank.get("none"), 1000, np.arange(120))
    assert measured == {"kind": rising_blocks(count_by_hand(gallery, labelled))}


def test_copies_are_no_answers() -> None:
    gallery, labelled = drawn(60)
    twice = Gallery((np.concatenate([gallery.blocks[0]] * 2),), np.arange(1, 121))
    label = np.concatenate([labelled.label] * 2)
    label[60:] = np.where(label[60:] >= 0, 1 - label[60:], -1)  # each copy has the other label
    label[90:] = label[30:60]
    mixed = LabelledRows(np.arange(120), label, np.full(120, -1))
    measured = count_agreement(twice, {"kind": mixed}, rerank.get("none"), 120, np.arange(120))
    assert measured == {"kind": rising_blocks(count_by_hand(twice, mixed))}


def test_the_same_images_in_another_order_are_drawn_by_the_order_given() -> None:
    gallery, labelled = drawn(120)
    moved = np.random.default_rng(1).permutation(120)
    other = Gallery((gallery.blocks[0][moved],), np.arange(1, 121))
    label = LabelledRows(np.arange(120), labelled.label[moved], labelled.patient[moved])
    none = rerank.get("none")
    expected = count_agreement(gallery, {"kind": labelled}, none, 60, np.arange(120))
    assert count_agreement(other, {"kind": label}, none, 60, np.argsort(moved)) == expected
    assert count_agreement(other, {"kind": label}, none, 60, np.arange(120)) != expected


def test_too_few_images_for_ten_answers_count_for_nothing() -> None:
    gallery, labelled = drawn(8)
    assert count_agreement(gallery, {"kind": labelled}, rerank.get("none"), 8, np.arange(8)) == {"kind": ()}


@pytest.mark.parametrize(
    ("codes", "winner"),
    [([1, 0, 0, 1], (1, 2)), ([0, 1, 1], (1, 2)), ([-1, -1, 3], (3, 1)), ([-1], (-1, 0)), ([], (-1, 0))],
)
def test_the_most_frequent_value_wins_and_a_tie_is_the_better_rank_s(
    codes: list[int], winner: tuple[int, int]
) -> None:
    assert most_frequent(np.array(codes, np.int64)) == winner


counts_of_queries = st.lists(
    st.integers(0, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=11, max_size=11
).map(lambda rows: np.array(rows, np.int64))


FALLING = [
    (29, 2), (39, 3), (2, 0), (0, 0), (4, 0), (12, 5), (5, 1), (19, 5), (34, 22), (20, 19), (9, 6)
]  # fmt: skip


@given(counts_of_queries)
@example(np.array(FALLING, np.int64))  # unless blocks that were merged for their size are compared once more
def test_blocks_rise_are_large_and_lose_no_query(table: Table) -> None:
    blocks = rising_blocks(table)
    shares = [block.share for block in blocks]
    assert shares == sorted(shares)
    assert all(0.0 < share < 1.0 for share in shares)
    assert sum(block.images for block in blocks) == table[:, 0].sum()
    assert sum(block.right for block in blocks) == table[:, 1].sum()
    assert len(blocks) <= 1 or min(block.images for block in blocks) >= LEAST_IMAGES


def test_blocks_of_many_images_are_those_of_isotonic_regression() -> None:
    random = np.random.default_rng(0)
    images = random.integers(5_000, 10_000, 11)
    right = (images * random.random(11)).astype(np.int64)
    fitted = IsotonicRegression().fit_transform(np.arange(11), right / images, sample_weight=images)
    blocks = rising_blocks(np.stack([images, right], axis=1))
    shares = [[block for block in blocks if block.least <= agreeing][-1].share for agreeing in range(11)]
    assert shares == pytest.approx(fitted, abs=1e-3)


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    made = filled(tmp_path_factory.mktemp("agreement") / "collection", LEAST_LABELLED)
    with made.writer() as writer:
        update_choice(made, writer)
    return made


def agreement_of(collection: Collection, **parameters: Any) -> list[tuple[str, int, bool]]:
    number = 3
    _, vector = entry(number)
    vector[:3] += 1.5
    searcher = Searcher(collection, Settings())
    answer = searcher.by_examples([], Request(**parameters), Stopwatch(), vectors=vector)
    return [(each.value, each.answers, each.right is not None) for each in answer.agreement]


def test_an_answer_tells_what_its_first_answers_have_in_common(collection: Collection) -> None:
    [(value, answers, measured)] = agreement_of(collection)
    assert (value, answers, measured) == ("b", 10, True)


@pytest.mark.parametrize(
    "parameters",
    [{"rerank": "eprf"}, {"where": ("label=b",)}, {"group_by": "label", "group_size": 10}, {"k": 9}],
)
def test_a_share_is_reported_only_for_answers_like_the_measured_ones(
    collection: Collection, parameters: dict[str, Any]
) -> None:
    assert not any(measured for _, _, measured in agreement_of(collection, **parameters))


def test_the_choice_keeps_its_agreement(collection: Collection) -> None:
    choice = read_choice(collection.auto_choice(), "tamura")
    assert sum(block.images for block in choice.agreement["label"]) == LEAST_LABELLED
    assert read_choice(choice.to_json(), "tamura") == choice


@pytest.mark.parametrize("agreement", [[], {"label": 1}, {"label": [[1]]}, "x"])
def test_agreement_that_cannot_be_read_is_no_choice(agreement: object) -> None:
    stored = json.loads(AutoChoice("none", "x", images=5).to_json()) | {"agreement": agreement}
    assert read_choice(json.dumps(stored), "tamura").images is None


def test_a_small_collection_has_no_agreement(tmp_path: Path) -> None:
    with filled(tmp_path / "few", 30) as few, few.writer() as writer:
        assert update_choice(few, writer).agreement == {}
