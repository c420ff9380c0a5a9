"""`cbir evaluate run` from a configuration, with presets, folds, conditions on queries and runs from files."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import InvalidInput
from cbir.evaluation.qrels import matching_entries
from cbir.evaluation.significance import assign_folds
from cbir.store import Collection
from cbir.store.records.filter_conditions import parse_filter
from tests.cbir.evaluation.small import ask
from tests.cbir.evaluation.small_run import FAST, lines, refused, rows, run, summary

OPTIONS = {"relevance": "label", "rerank": "none pearson", "measures": "AP P@1", "depth": 20, "seed": 3}


@pytest.fixture(scope="module")
def first(collection, tmp_path_factory):
    """A result of a configuration in TOML."""
    folder = tmp_path_factory.mktemp("first")
    values = [f"{name} = {json.dumps(value)}" for name, value in OPTIONS.items()]
    values += [
        f'collection = "{collection.folder}"',
        "same-patient = true",
        'where = ["half!=9"]',
        "sample = 20",
    ]
    (folder / "eval.toml").write_text("\n".join(values))
    run("--config", folder / "eval.toml", "--out", folder / "out", "--folds", "4", *FAST)
    return folder / "out"


def test_a_configuration_sets_every_option(first):
    terms = summary(first)
    assert (terms["queries"]["sample"], terms["queries"]["seed"]) == (20, 3)
    assert terms["terms"]["where"] == ["half!=9"]
    assert terms["terms"]["same_patient"]
    assert terms["terms"]["depth"] == 20
    assert [one["name"] for one in terms["runs"]] == ["none", "pearson"]
    stated = terms["config"]
    assert (
        stated.items()
        >= (OPTIONS | {"same_patient": True, "where": ["half!=9"], "sample": 20, "folds": 4}).items()
    )
    assert stated["pictures"] is False
    assert not {"out", "jobs", "config"} & set(stated)


def test_a_result_repeats_itself_bit_for_bit(first, tmp_path):
    output = run("--config", first / "summary.json", "--out", tmp_path / "again", "--jobs", "1")
    assert "bit for bit" in output
    assert "differs" not in output
    for name in ("qrels.txt", "queries.csv", "runs/none.run", "runs/pearson.run"):
        assert (tmp_path / "again" / name).read_bytes() == (first / name).read_bytes()
    again, before = summary(tmp_path / "again"), summary(first)
    assert again["config"] == before["config"]
    assert [one["measures"] for one in again["runs"]] == [one["measures"] for one in before["runs"]]


def test_differences_to_a_result_are_named(first, tmp_path):
    stated = summary(first)
    stated["collection"]["generation"] += 1
    stated["versions"]["numpy"] = "1.0"
    stated["files"]["runs/none.run"] = "0" * 64
    path = tmp_path / "result.json"
    path.write_text(json.dumps(stated))
    output = run("--config", path, "--out", tmp_path / "again", "--jobs", "1", "--seed", "4")
    generation = summary(first)["collection"]["generation"]
    for difference in (
        f"collection: generation {generation}, then {generation + 1}", f"numpy {np.__version__}, then 1.0",
        "another content of runs/none.run", "another content of qrels.txt",
    ):  # fmt: skip
        assert difference in output
    assert "bit for bit" not in output
    assert summary(tmp_path / "again")["queries"]["seed"] == 4  # the command line comes first


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.toml", "depth = ", "no TOML or JSON"),
        ("a.json", "{", "no TOML or JSON"),
        ("a.json", "[1]", "must hold names"),
        ("a.json", '{"magic": 1}', "no option magic; there are"),
        ("a.json", '{"config": {"config": "b.json"}}', "no option config"),
        ("a.json", '{"where": [["a=1"]]}', "where must be a text, or a list of texts"),
        ("a.json", '{"rerank": ["none"]}', "rerank must be a text, a number, true or false"),
        ("a.json", '{"where": "half=none"}', "no image with half=none"),
        ("a.json", '{"depth": "deep"}', "valid integer"),
        ("a.json", '{"preset": "magic"}', "magic"),
        ("a.json", '{"depth": -1}', "--depth"),
    ],
)
def test_configurations_that_cannot_be_used(collection, tmp_path, name, text, reason):
    (tmp_path / name).write_text(text)
    common = ("--collection", collection.folder, "--out", tmp_path / "out", *FAST)
    assert reason in refused("--config", tmp_path / name, *common)
    assert not (tmp_path / "out").exists()


def test_a_missing_configuration(tmp_path):
    assert "cannot be read" in refused("--config", tmp_path / "missing.toml", "--out", tmp_path / "out")


def test_folds_divide_the_queries_by_patient(first, collection):
    measures = summary(first)["runs"][1]["measures"]["AP"]["folds"]
    assert len(measures["means"]) == 4
    assert measures["mean"] == pytest.approx(np.mean(measures["means"]))
    assert measures["deviation"] == pytest.approx(np.std(measures["means"], ddof=1))
    report = (first / "report.html").read_text()
    assert "4 folds" in report
    assert f"{measures['mean']:.4f} ± {measures['deviation']:.4f}" in report


def queries_of(patients, contents=None):
    contents = contents or [f"picture {number}" for number in range(len(patients))]
    return [ask(f"q{number}", {}, *pair) for number, pair in enumerate(zip(patients, contents, strict=True))]


def test_patients_stay_together_and_classes_spread():
    patients = [f"p{number // 3}" for number in range(60)]
    classes = np.arange(60) // 3 % 2
    folds = assign_folds(queries_of(patients), classes, 5, seed=0)
    assert all(
        len({fold for fold, own in zip(folds, patients, strict=True) if own == one}) == 1 for one in patients
    )
    for fold in range(5):
        assert np.bincount(classes[folds == fold]).tolist() == [6, 6]
    assert (assign_folds(queries_of(patients), classes, 5, seed=1) != folds).any()


def test_many_classes_spread_evenly():
    classes = np.random.default_rng(0).permutation(np.repeat(np.arange(40), 10))
    folds = assign_folds(queries_of([None] * 400), classes, 5, seed=0)
    for fold in range(5):
        assert np.bincount(classes[folds == fold]).tolist() == [2] * 40


def test_folds_follow_the_pictures_not_order_or_keys():
    queries = queries_of([f"p{number // 2}" for number in range(20)])
    classes = np.arange(20) % 2
    folds = assign_folds(queries, classes, 3, 0)
    other = queries_of([f"another key {number // 2}" for number in range(20)])[::-1]
    np.testing.assert_array_equal(assign_folds(other, 1 - classes[::-1], 3, 0), folds[::-1])


def test_copies_of_a_picture_without_a_patient_stay_together():
    queries = queries_of([None] * 10, [f"picture {number % 5}" for number in range(10)])
    folds = assign_folds(queries, np.zeros(10, int), 5, 0)
    np.testing.assert_array_equal(folds[:5], folds[5:])
    with pytest.raises(InvalidInput, match="6 folds need"):
        assign_folds(queries, np.zeros(10, int), 6, 0)


def test_a_fused_run_is_evaluated_under_the_same_rules(collection, tmp_path, monkeypatch):
    common = ("--collection", collection.folder, "--out", tmp_path / "out", *FAST)
    run(*common, "--rerank", "none pearson", "--measures", "AP P@5")
    runs = tmp_path / "out" / "runs"
    copy, fused = tmp_path / "copy.run", tmp_path / "fused.run"
    # Answers that searches leave out, and an image that the collection lacks, in front of those of a search
    by_query = {}
    for line in lines(runs / "none.run"):
        by_query.setdefault(line[0], []).append(line)
    patient = {record.image_id: record.patient_key for _, record in collection.iterate()}
    text = []
    for query, answers in by_query.items():
        own = [query, *(image for image in patient if patient[image] == patient[query] and image != query)]
        front = [
            [query, "Q0", image, "0", f"{1e6 - place}", "x"] for place, image in enumerate([*own, "unknown"])
        ]
        text += [" ".join(line) for line in [*front, *answers]]
    copy.write_text("\n".join(text))
    arguments = ["evaluate", "fuse", str(runs / "none.run"), str(runs / "pearson.run"), "--out", str(fused)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    monkeypatch.chdir(tmp_path)
    run(*common, "--rerank", "none pearson", "--measures", "AP P@5", "--run", "copy.run", "--run", fused)
    none, pearson, copied, both = summary(tmp_path / "out")["runs"]
    assert copied["name"] == "copy"
    assert {name: value["mean"] for name, value in copied["measures"].items()} == {
        name: value["mean"] for name, value in none["measures"].items()
    }
    assert copied["notes"] == [
        f"{len(by_query)} answers are not among the images of this evaluation and are left out"
    ]
    assert (copied["file"], copied["seconds"]) == (str(copy), None)
    assert both["measures"]["AP"]["mean"] != pearson["measures"]["AP"]["mean"]
    assert "p_holm" in both["measures"]["AP"]
    for name in ("none.run", "other/runs/none.run", "third/other/none.run"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(copy, tmp_path / name)
    printed = run(
        *common, "--rerank", "none", "--run", tmp_path / "none.run", "--run", tmp_path / "other/runs/none.run"
    )
    names = [each["name"] for each in summary(tmp_path / "out")["runs"]]
    assert names == ["none", f"{tmp_path.name}/none", "other/none"]
    assert "difference from none with its p value" in printed
    alike = [
        word for name in ("other/runs", "third/other") for word in ("--run", tmp_path / name / "none.run")
    ]
    assert "two runs are named other/none" in refused(*common, "--rerank", "none", *alike)
    (tmp_path / "other.run").write_text("nothing Q0 unknown 1 1 x\n")
    assert "of another collection?" in refused(*common, "--run", tmp_path / "other.run")


def test_images_of_the_collection_query_others(collection, tmp_path):
    options = ("--where", "half=0", "--queries-where", "half=1", "--rerank", "none", *FAST)
    run("--collection", collection.folder, "--out", tmp_path, *options)
    half = {record.image_id: record.labels["half"] for _, record in collection.iterate()}
    answers = lines(tmp_path / "runs" / "none.run")
    assert {half[line[0]] for line in answers} == {"1"}
    assert {half[line[2]] for line in answers} == {"0"}
    assert summary(tmp_path)["queries"]["where"] == ["half=1"]
    assert "half=1" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("condition", ["half=1", "half!=1", "grade>=1", "grade<0.5", "missing!=1", "label>1"])
def test_rows_of_a_csv_are_selected_as_images_are(collection, condition):
    entries = [(Path(record.source), dict(record.labels)) for _, record in collection.iterate()]
    expected = collection.matching_numbers([parse_filter(condition)])
    numbers = {Path(record.source): number for number, record in collection.iterate()}
    if not len(expected):
        with pytest.raises(InvalidInput, match=f"a.csv names no query with {condition}"):
            matching_entries(entries, [condition], Path("a.csv"))
        return
    selected = matching_entries(entries, [condition], Path("a.csv"))
    assert {numbers[entries[index][0]] for index in selected} == set(expected.tolist())


def test_conditions_limit_the_queries_of_a_csv(collection, pictures, tmp_path):
    path = tmp_path / "queries.csv"
    path.write_text("path,label,half\n" + "".join(f"{pictures}/{n}.png,fine,{n % 3}\n" for n in range(6)))
    run(
        "--collection", collection.folder, "--queries", path, "--queries-where", "half=1", "--rerank", "none",
        "--out", tmp_path / "out", *FAST,
    )  # fmt: skip
    assert [row["row"] for row in rows(tmp_path / "out")] == ["2", "5"]


@pytest.mark.parametrize(
    ("preset", "measures", "queries"),
    [
        ("p-at-k", ["cappedP@1", "cappedP@3", "cappedP@5", "cappedP@10"], {"test", "val"}),
        ("medmnist", ["mAP@5", "mMV@5", "ACC@1", "ACC@3", "ACC@5"], {"test"}),
    ],
)
def test_presets(pictures, tmp_path, preset, measures, queries):
    path, folder = tmp_path / "labels.csv", tmp_path / "c"
    splits = ["train", "train", "test", "val"]
    table = [f"{pictures}/{n}.png,{n % 2},{splits[n // 2 % 4]}" for n in range(24)]
    path.write_text("\n".join(["path,label,split", *table]))
    command = [
        "index",
        pictures,
        "--collection",
        folder,
        "--labels",
        path,
        "--profile",
        "tamura",
        "--jobs",
        1,
    ]
    indexed = CliRunner().invoke(app, [str(word) for word in command])
    assert indexed.exit_code == 0, indexed.output
    run("--collection", folder, "--out", tmp_path / "out", "--preset", preset, *FAST)
    terms = summary(tmp_path / "out")
    assert list(terms["runs"][0]["measures"]) == measures
    assert terms["config"]["preset"] == preset
    files = {line.split(",")[0]: line.split(",")[2] for line in table}
    with Collection(folder) as opened:
        split = {record.image_id: files.get(record.source, "") for _, record in opened.iterate()}
    answers = lines(tmp_path / "out" / "runs" / "none.run")
    assert {split[line[0]] for line in answers} == queries
    assert {split[line[2]] for line in answers} == {"train"}
    classes = terms["runs"][0]["classes"].values()
    macro = np.mean([values[measures[0]] for values in classes])
    assert terms["runs"][0]["measures"][measures[0]]["class_mean"] == pytest.approx(macro)
    # An option of the command line comes before that of the preset
    run("--collection", folder, "--out", tmp_path / "other", "--preset", preset, "--measures", "AP", *FAST)
    assert list(summary(tmp_path / "other")["runs"][0]["measures"]) == ["AP"]
