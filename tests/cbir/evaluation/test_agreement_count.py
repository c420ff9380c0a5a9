"""How often labels of answers agree rightly, against a count over all pairs."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.isotonic import IsotonicRegression

from cbir import rerank
from cbir.evaluation.agreement_count import (
    LabelledRows,
    LabelNames,
    count_agreement,
    most_frequent,
)
from cbir.evaluation.auto_choice import update_choice
from cbir.gallery.gallery import Gallery
from cbir.rerank import AutoChoice, read_choice
from cbir.rerank.answer_evidence import (
    BY_IMAGE,
    BY_PATIENT,
    LEAST_IMAGES,
    AgreementBlock,
    Evidence,
    block_of,
    rising_blocks,
)
from cbir.search import Request, Searcher, Stopwatch
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base import profile
from tests.cbir.evaluation.test_auto_choice import filled
from tests.cbir.store.conftest import entry

Table = NDArray[np.int64]


GROUPS = ["CT/head", "MR/head"]


def drawn(count: int, patients: int = 0) -> tuple[Gallery, LabelledRows]:
    """Return images of two kinds that overlap, some without a label; patients have one of each kind."""
    random = np.random.default_rng(0)
    kind = np.arange(count) % 2
    vectors = (random.normal(size=(count, 4)) + 1.5 * kind[:, None]).astype(np.float32)
    label = np.where(random.random(count) < 0.1, -1, kind)
    patient = np.arange(count) // 2 if patients else np.full(count, -1)
    gallery = Gallery((vectors,), np.arange(1, count + 1))
    return gallery, LabelledRows(np.arange(count), label, patient)


def counted(
    gallery: Gallery, labelled: LabelledRows, indices: Any, groups: Any = None
) -> dict[str, Evidence]:
    """Evidence by what the answers are, of a label `kind` with the values even and odd."""
    codes = np.zeros(len(gallery), np.int64) if groups is None else groups
    names = LabelNames({"kind": ["even", "odd"]}, codes, GROUPS)
    rows = np.asarray(indices, np.int64)
    measured = count_agreement(gallery, {"kind": labelled}, names, rerank.get("none"), rows)
    return {form: by_key["kind"] for form, by_key in measured.items()}


def count_by_hand(gallery: Gallery, labelled: LabelledRows, one_of_each: bool = False) -> dict[str, Table]:
    """Count with every image of a label, by the value; images at the same place are no answers."""
    vectors, count = gallery.blocks[0], len(gallery)
    tables = {name: np.zeros((11, 2), np.int64) for name in ("even", "odd")}
    for i in np.flatnonzero(labelled.label >= 0):
        own = labelled.patient[i]
        distances = np.linalg.norm(vectors - vectors[i], axis=1)
        allowed = [j for j in range(count) if distances[j] > 0 and (own < 0 or labelled.patient[j] != own)]
        nearest = sorted(allowed, key=lambda j: float(distances[j]))
        if one_of_each:
            owners = [int(labelled.patient[j]) for j in nearest]
            nearest = [j for n, j in enumerate(nearest) if owners[n] not in owners[:n]]
        counts = Counter(int(labelled.label[j]) for j in nearest[:10] if labelled.label[j] >= 0)
        value, agreeing = counts.most_common(1)[0]
        tables[("even", "odd")[value]][agreeing] += 1, value == labelled.label[i]
    return tables


def without_patients(evidence: Evidence) -> dict[str, Any]:
    return {
        name: tuple(block._replace(patients=0) for block in blocks)
        for name, blocks in evidence.values.items()
    }


def blocks_of(tables: dict[str, Table]) -> dict[str, Any]:
    return {name: rising_blocks(table) for name, table in tables.items()}


def everything(gallery: Gallery, labelled: LabelledRows) -> Any:
    return np.flatnonzero(labelled.label >= 0)


@pytest.mark.parametrize("patients", [0, 1])
def test_agreement_is_counted_as_by_hand(patients: int) -> None:
    gallery, labelled = drawn(120, patients)
    measured = counted(gallery, labelled, everything(gallery, labelled))
    assert without_patients(measured[BY_IMAGE]) == blocks_of(count_by_hand(gallery, labelled))
    one_of_each = blocks_of(count_by_hand(gallery, labelled, bool(patients)))
    assert without_patients(measured[BY_PATIENT]) == one_of_each
    assert measured[BY_IMAGE].groups == {}  # every value has enough searches


def test_twenty_searches_make_a_block() -> None:
    few, enough = AgreementBlock(3, 19, 5), AgreementBlock(8, 20, 15)
    assert [block_of((few, enough), agreeing) for agreeing in (2, 3, 7, 8, 10)] == [None] * 3 + [enough] * 2


def test_an_interval_counts_patients() -> None:
    gallery, labelled = drawn(120, 1)
    for form in counted(gallery, labelled, everything(gallery, labelled)).values():
        for blocks in form.values.values():
            assert all(block.images / 2 <= block.patients <= block.images for block in blocks)
    alone, _ = drawn(120)
    _, nobody = drawn(120)
    for blocks in counted(alone, nobody, everything(alone, nobody))[BY_IMAGE].values.values():
        assert all(block.patients == block.images for block in blocks)
    low, high = AgreementBlock(10, 100, 80, 25).interval
    assert (low, high) == AgreementBlock(10, 25, 20).interval


def test_copies_are_no_answers() -> None:
    gallery, labelled = drawn(60)
    twice = Gallery((np.concatenate([gallery.blocks[0]] * 2),), np.arange(1, 121))
    label = np.concatenate([labelled.label] * 2)
    label[60:] = np.where(label[60:] >= 0, 1 - label[60:], -1)  # each copy has the other label
    label[90:] = label[30:60]
    mixed = LabelledRows(np.arange(120), label, np.full(120, -1))
    measured = counted(twice, mixed, everything(twice, mixed))
    assert without_patients(measured[BY_IMAGE]) == blocks_of(count_by_hand(twice, mixed))


def test_values_with_few_searches_are_counted_by_modality_and_body_part() -> None:
    gallery, labelled = drawn(120)
    groups = np.arange(120) % 2
    few = everything(gallery, labelled)[:36]
    measured = counted(gallery, labelled, few, groups)[BY_IMAGE]
    assert not any(block.images >= LEAST_IMAGES for blocks in measured.values.values() for block in blocks)
    both = counted(gallery, labelled, few, np.zeros(120, np.int64))[BY_IMAGE]
    assert sum(block.images for block in both.groups["CT/head"]) == 36
    assert counted(gallery, labelled, few, np.full(120, -1))[BY_IMAGE].groups == {}
    assert measured.groups == {}  # 18 of each modality are too few


def test_too_few_images_for_ten_answers_count_for_nothing() -> None:
    gallery, labelled = drawn(8)
    measured = counted(gallery, labelled, np.arange(8))
    assert measured == {BY_IMAGE: Evidence(), BY_PATIENT: Evidence()}


@pytest.mark.parametrize(("right", "images"), [(0, 20), (20, 20), (17, 20), (70, 86), (97, 100)])
def test_the_interval_is_that_of_wilson(right: int, images: int) -> None:
    block = AgreementBlock(10, images, right)
    expected = binomtest(right, images).proportion_ci(0.95, "wilson")
    assert block.interval == pytest.approx((expected.low, expected.high), abs=1e-4)
    assert block.interval[0] <= block.share <= block.interval[1]


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


def table_of(*rows: tuple[int, int]) -> Table:
    """Return (11, 2) images and right ones, the last for the most agreeing answers."""
    return np.array([(0, 0)] * (11 - len(rows)) + list(rows), np.int64)


@given(counts_of_queries)
@example(table_of((30, 15), (40, 20)))
@example(np.array(FALLING, np.int64))  # unless blocks that were merged for their size are compared once more
def test_blocks_rise_are_large_and_lose_no_query(table: Table) -> None:
    blocks = rising_blocks(table)
    shares = [block.share for block in blocks]
    assert shares == sorted(set(shares))  # equal ones are merged
    assert all(0.0 < share < 1.0 for share in shares)
    assert sum(block.images for block in blocks) == table[:, 0].sum()
    assert sum(block.right for block in blocks) == table[:, 1].sum()
    assert len(blocks) <= 1 or min(block.images for block in blocks) >= LEAST_IMAGES


def test_small_blocks_are_merged_from_the_most_agreeing_on() -> None:
    """With the one before; two that are large enough together do not join a large one."""
    found = rising_blocks(table_of((100, 20), (10, 5), (15, 14)))
    assert [(block.least, block.images) for block in found] == [(8, 100), (9, 25)]
    found = rising_blocks(table_of((5, 0), (100, 20), (15, 14)))
    assert [(block.least, block.images) for block in found] == [(8, 120)]


def test_blocks_of_many_images_are_those_of_isotonic_regression() -> None:
    random = np.random.default_rng(0)
    images = random.integers(5_000, 10_000, 11)
    right = (images * random.random(11)).astype(np.int64)
    fitted = IsotonicRegression().fit_transform(np.arange(11), right / images, sample_weight=images)
    blocks = rising_blocks(np.stack([images, right], axis=1))
    shares = [[block for block in blocks if block.least <= agreeing][-1].share for agreeing in range(11)]
    assert shares == pytest.approx(fitted, abs=1e-3)


def confused(folder: Path, count: int) -> Collection:
    """Images of a sure label, and of two that are drawn alike; the rarest has too few for itself."""
    random = np.random.default_rng(0)
    made = Collection.create(folder, profile.get("tamura"))
    entries = []
    for number in range(count):
        record, vector = entry(number)
        kind = ("sure", "sure", "benign", "malignant")[number % 4]
        place = {"sure": 0.0, "benign": 8.0, "malignant": 8.0}[kind]
        vector[:] = place + random.normal(size=len(vector)).astype(np.float32) * 0.3
        labels = {"label": kind, "modality": "US", "anatomy": "breast", "patient": f"{number % 60}"}
        entries.append((replace(record, labels=labels, patient_key=f"{number // 2:032x}"), vector))
    with made.writer() as writer:
        writer.add(entries)
        writer.finish()
    return made


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    made = confused(tmp_path_factory.mktemp("agreement") / "collection", 400)
    with made.writer() as writer:
        update_choice(made, writer)
    return made


def agreement_of(collection: Collection, place: float, **parameters: Any) -> Any:
    _, vector = entry(3)
    vector[:] = place
    searcher = Searcher(collection, Settings())
    answer = searcher.by_examples([], Request(**parameters), Stopwatch(), vectors=vector)
    return next((each for each in answer.agreement if each.key == "label"), None)


def test_a_sure_value_does_not_vouch_for_others(collection: Collection) -> None:
    sure, unsure = agreement_of(collection, 0.0), agreement_of(collection, 8.0)
    assert (sure.value, sure.agreeing, sure.counted) == ("sure", 10, "value")
    assert sure.low > 0.95
    assert unsure.value in ("benign", "malignant")
    assert unsure.right is None or unsure.high < 0.9
    assert unsure.right is None or unsure.low <= unsure.right <= unsure.high


@pytest.mark.parametrize("group_by", [None, "patient"])
def test_shares_are_stated_for_images_and_for_one_of_each_patient(
    collection: Collection, group_by: str | None
) -> None:
    stated = agreement_of(collection, 0.0, group_by=group_by)
    assert stated.right is not None
    choice = read_choice(collection.auto_choice(), "tamura")
    blocks = choice.evidence[group_by or BY_IMAGE]["label"].values["sure"]
    assert stated.images == blocks[-1].images


@pytest.mark.parametrize(
    "parameters",
    [
        {"rerank": "eprf"},
        {"where": ("modality=US",)},
        {"group_by": "label", "group_size": 10},
        {"group_by": "patient", "group_size": 2},
        {"k": 9},
        {"max_distance": 100.0},
    ],
)
def test_a_share_is_reported_only_for_answers_like_the_measured_ones(
    collection: Collection, parameters: dict[str, Any]
) -> None:
    stated = agreement_of(collection, 0.0, **parameters)
    assert (stated.right, stated.low, stated.high, stated.images, stated.counted) == (
        None,
        None,
        None,
        None,
        "",
    )


def test_the_choice_keeps_its_evidence(collection: Collection) -> None:
    choice = read_choice(collection.auto_choice(), "tamura")
    assert set(choice.evidence) == {BY_IMAGE, BY_PATIENT}
    assert read_choice(choice.to_json(), "tamura") == choice


@pytest.mark.parametrize("evidence", [[], {"image": 1}, {"image": {"label": [[1]]}}, "x"])
def test_evidence_that_cannot_be_read_is_no_choice(evidence: object) -> None:
    stored = json.loads(AutoChoice("none", "x", images=5).to_json()) | {"evidence": evidence}
    assert read_choice(json.dumps(stored), "tamura").images is None


def test_what_an_earlier_version_counted_is_counted_again() -> None:
    stored = json.loads(AutoChoice("none", "x", images=5).to_json())
    del stored["evidence"]
    choice = read_choice(json.dumps(stored | {"agreement": {"label": [[0, 500, 450]]}}), "tamura")
    assert (choice.method, choice.images, choice.evidence) == ("none", None, {})


def test_a_small_collection_has_no_evidence(tmp_path: Path) -> None:
    with filled(tmp_path / "few", 30) as few, few.writer() as writer:
        assert update_choice(few, writer).evidence == {}
