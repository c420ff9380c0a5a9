"""`cbir collection compare`: the same queries in two collections of the same images."""

import json
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau

from cbir import settings
from cbir.errors import InvalidInput
from cbir.evaluation.collection_comparison import _compare_query, compare_collections
from cbir.evaluation.commands.compare_collections import _facts, _print_comparison
from cbir.evaluation.rank_metrics import average_precision
from cbir.evaluation.report.comparison_report import write_comparison_report
from cbir.search import Request, Searcher
from cbir.settings import Settings
from cbir.store import Collection, Record
from cbir.store.base import profile as profiles
from cbir.store.upkeep.carry_over import CarryOver, open_counterpart
from tests.indexer.commands import call
from tests.indexer.conftest import picture

COUNT = 60


def fill(folder: Path, noise: float, count: int = COUNT, label: bool = True) -> Path:
    """A collection of three classes, whose vectors lie apart by more than the `noise`; three images a patient."""
    generator = np.random.default_rng(0)
    entries = []
    for n in range(count):
        labels = {"label": "abc"[n % 3], "modality": "CT"} if label else {}
        record = Record(f"{n:032x}", f"/{n}.png", "1", "png", 9, 9, patient_key=f"p{n // 3}", labels=labels)
        vector = np.full(6, 3.0 * (n % 3)) + noise * generator.normal(size=6)
        entries.append((record, vector.astype(np.float32)))
    order = generator.permutation(count)  # images have other numbers in every collection
    with Collection.create(folder, profiles.get("tamura")) as collection, collection.writer() as writer:
        writer.add([entries[n] for n in (order if noise > 1 else range(count))])
        writer.finish()
    return folder


@pytest.fixture(scope="module")
def loaded() -> Settings:
    return settings.load(device="cpu")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A collection that tells the classes apart, and one that hardly does; not to be changed."""
    root = tmp_path_factory.mktemp("compared")
    return fill(root / "good", 0.3), fill(root / "bad", 12.0)


def test_a_collection_is_like_itself(folders, loaded):
    with Collection(folders[0]) as one, Collection(folders[0]) as other:
        comparison = compare_collections(one, other, loaded, queries=20)
    assert comparison.overlaps.tolist() == [1.0] * 20
    assert comparison.correlation == pytest.approx(1.0)
    assert comparison.in_both == COUNT
    (label,) = comparison.labels  # the other has one value
    assert (label.label, label.queries) == ("label", 20)
    for metric in label.metrics:
        assert (metric.a, metric.low, metric.high, metric.p) == (metric.b, 0.0, 0.0, 1.0)


def test_figures_are_those_of_the_obvious_form(folders, loaded):
    with Collection(folders[0]) as good, Collection(folders[1]) as bad:
        comparison = compare_collections(good, bad, loaded, queries=15, k=6, seed=3)
        again = compare_collections(good, bad, loaded, queries=15, k=6, seed=3)
        precisions, averages = [], []
        for query in comparison.queries:
            answers = []
            for collection in (good, bad):
                record = collection.record(query.image_id)
                request = Request(k=COUNT, rerank="none", exclude_patient_key=record.patient_key)
                raw = collection.vector(query.image_id)
                ranked = Searcher(collection, loaded).rank(raw, record.content_hash, request)
                records = collection.records(ranked.numbers.tolist())
                answers.append([records[number] for number in ranked.numbers.tolist()])
            assert [[r.image_id for r in side[:6]] for side in answers] == [query.a, query.b]
            assert not {r.patient_key for side in answers for r in side} & {record.patient_key}
            shared = [image_id for image_id in query.a if image_id in query.b]
            assert query.overlap == len(shared) / 6
            if len(shared) > 1:
                ranks = [query.b.index(image_id) for image_id in shared]
                assert query.correlation == pytest.approx(kendalltau(range(len(ranks)), ranks).statistic)
            hits = [np.array([r.labels["label"] == record.labels["label"] for r in side]) for side in answers]
            precisions.append([side[:6].mean() for side in hits])
            averages.append([average_precision(side[None])[0] for side in hits])
        assert replace(again, milliseconds=(0, 0)) == replace(comparison, milliseconds=(0, 0))
    (label,) = comparison.labels
    for metric, expected in zip(label.metrics, (np.mean(precisions, 0), np.mean(averages, 0)), strict=True):
        np.testing.assert_allclose((metric.a, metric.b), expected)
        assert metric.a > metric.b
        assert metric.low < metric.b - metric.a < metric.high < 0
        assert metric.p < 0.01
    different = comparison.most_different()
    assert [query.overlap for query in different] == sorted(comparison.overlaps)[:10]


def test_overlap_is_a_share_of_the_longer_list():
    """A collection that leaves out more images of a patient has fewer answers."""
    long, short = np.array([1, 2, 3, 4]), np.array([2, 1])
    assert [_compare_query("abcde", 0, both).overlap for both in ([long, short], [short, long])] == [0.5, 0.5]


def test_images_of_one_collection_alone_are_left_out(folders, loaded, tmp_path):
    fill(tmp_path / "part", 0.3, 30)
    with Collection(folders[0]) as whole, Collection(tmp_path / "part") as part:
        comparison = compare_collections(whole, part, loaded, queries=100)
    assert (comparison.images, comparison.in_both, len(comparison.queries)) == ((COUNT, 30), 30, 30)
    assert max(int(image_id, 16) for query in comparison.queries for image_id in query.a + query.b) < 30
    assert comparison.overlaps.min() > 0.5  # the statistics differ


def test_unlabelled_and_unrelated_collections(folders, loaded, tmp_path):
    fill(tmp_path / "plain", 0.3, label=False)
    with Collection(tmp_path / "plain") as plain, Collection(folders[0]) as good:
        assert compare_collections(plain, good, loaded, queries=5).labels == []
        with pytest.raises(InvalidInput, match="has the label site"):
            compare_collections(good, plain, loaded, label_keys=["site"])
    fill(tmp_path / "empty", 0.3, 0)
    with (
        Collection(tmp_path / "empty") as empty,
        Collection(folders[0]) as good,
        pytest.raises(InvalidInput, match="0 images in common"),
    ):
        compare_collections(good, empty, loaded)


@pytest.fixture
def changing(folders, tmp_path) -> Path:
    """A collection that may be changed, like the first of `folders`."""
    return Path(shutil.copytree(folders[0], tmp_path / "changing"))


def test_an_image_that_comes_meanwhile_is_no_answer(folders, changing, loaded):
    def add(done: int, total: int) -> None:
        if done == 1:
            record = Record("f" * 32, "/new.png", "1", "png", 9, 9, patient_key="other")
            with Collection(changing) as collection, collection.writer() as writer:
                writer.add([(record, collection.vector(collection.image_ids()[1]))])

    with Collection(folders[0]) as one, Collection(changing) as other:
        before = set(other.image_ids().values())
        comparison = compare_collections(one, other, loaded, queries=10, k=COUNT, progress=add)
        assert len(other) == COUNT + 1
    assert (len(comparison.queries), comparison.skipped) == (10, 0)
    for query in comparison.queries:
        assert set(query.b) < before
        assert sorted(query.a) == sorted(query.b)  # all images of other patients, once


def test_an_image_that_comes_between_others_is_not_taken_for_one_of_them(folders, loaded, tmp_path):
    folder = tmp_path / "carried"
    with Collection(folders[0]) as source, open_counterpart(source, folder, source.profile) as target:
        numbers = list(source.image_ids())
        vectors = {number: source.vector(source.image_ids()[number]) for number in numbers}
        late = numbers[COUNT // 2]

        def carry(chosen: list[int]) -> None:
            with Collection(folder) as opened, opened.writer() as writer:
                carried = CarryOver(source, opened, writer)
                carried.add({number: vectors[number] for number in chosen})
                carried.finish()
                writer.finish()

        def add(done: int, total: int) -> None:
            if done == 1:
                carry([late])

        carry([number for number in numbers if number != late])
        comparison = compare_collections(source, target, loaded, queries=10, k=COUNT, progress=add)
        assert len(target) == COUNT
    for query in comparison.queries:
        assert sorted(query.a) == sorted(query.b)
        assert source.image_ids()[late] not in query.a


@pytest.mark.parametrize("first", [True, False])
def test_queries_whose_image_is_deleted_meanwhile_are_skipped(folders, changing, loaded, first):
    def delete(done: int, total: int) -> None:
        if done == 1:
            with Collection(changing) as collection, collection.writer() as writer:
                writer.delete(list(collection.image_ids().values())[: COUNT // 2])

    with Collection(folders[0]) as one, Collection(changing) as other:
        a, b = (other, one) if first else (one, other)
        comparison = compare_collections(a, b, loaded, queries=20, progress=delete)
        left = set(other.image_ids().values())
    assert len(comparison.queries) + comparison.skipped == 20
    assert 0 < comparison.skipped < 20
    assert {query.image_id for query in comparison.queries[1:]} <= left


def test_no_query_is_left(folders, changing, loaded):
    def delete(done: int, total: int) -> None:
        if done == 0:
            with Collection(changing) as collection, collection.writer() as writer:
                writer.delete(list(collection.image_ids().values()))

    with (
        Collection(folders[0]) as one,
        Collection(changing) as other,
        pytest.raises(InvalidInput, match="deleted meanwhile"),
    ):
        compare_collections(one, other, loaded, queries=5, progress=delete)


def test_what_was_deleted_meanwhile_is_said(folders, changing, loaded, tmp_path, capsys):
    with Collection(folders[0]) as one, Collection(changing) as other:
        comparison = replace(compare_collections(one, other, loaded, queries=5), skipped=3)
        facts = _facts(comparison, one, other) | {"k": 10, "seed": 0, "rerank": "none"}
        with Collection(changing) as collection, collection.writer() as writer:
            writer.delete([comparison.queries[0].image_id])
        write_comparison_report(tmp_path / "report.html", comparison, other, facts, loaded.max_pixels)
    _print_comparison(facts)
    assert "3 queries were skipped" in capsys.readouterr().out
    page = (tmp_path / "report.html").read_text()
    assert ">deleted meanwhile<" in page
    assert "3 skipped" in page


def test_the_command_prints_a_table_or_json(folders):
    good, bad = folders
    options = ("--queries", 10, "-k", 5, "--rerank", "eprf")
    facts = json.loads(call("collection", "compare", good, bad, *options, "--format", "json")[0])
    assert (facts["a"]["images"], facts["images_in_both"], facts["queries"], facts["k"]) == (
        COUNT,
        COUNT,
        10,
        5,
    )
    assert facts["a"]["profile"] == "tamura"
    assert facts["a"]["milliseconds"] > 0
    assert 0 <= facts["overlap"]["min"] <= facts["overlap"]["mean"] <= facts["overlap"]["max"] <= 1
    assert facts["labels"][0]["metrics"][0]["name"] == "P@5"
    assert len(facts["most_different"]) == 10
    text, _ = call("collection", "compare", good, bad, *options, "--label", "label", "--label", "modality")
    for word in ("overlap of the first 5", "Kendall's tau", "P@5", "mAP", "modality", "differ most"):
        assert word in text
    assert facts["most_different"][0]["image_id"] in text
    assert "there is no re-ranker" in call("collection", "compare", good, bad, "--rerank", "x", code=2)[1]


def test_the_report_shows_pictures_and_no_names(tmp_path):
    for seed in range(8):
        picture(tmp_path / "images" / f"DOE^JANE-{seed}.png", seed)
    for name, profile in (("a", "tamura"), ("b", "color_layout")):
        call("index", tmp_path / "images", "--collection", tmp_path / name, "--jobs", 1, "--profile", profile)
    (tmp_path / "images" / "DOE^JANE-3.png").unlink()
    report = tmp_path / "report.html"
    call("collection", "compare", tmp_path / "a", tmp_path / "b", "--k", 3, "--report", report)
    page = report.read_text()
    assert page.count("data:image/jpeg") > 20
    assert "its file is missing" in page
    assert "DOE" not in page
    assert page.count('class="asked"') == 2 * 8
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    shared = page.count('class="hit"')
    with Collection(tmp_path / "a") as a, Collection(tmp_path / "b") as b:
        queries = compare_collections(a, b, settings.load(device="cpu"), k=3).queries
    assert shared == sum(2 * len(set(query.a) & set(query.b)) for query in queries)
