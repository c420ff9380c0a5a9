"""Queries, relevance and conditions of `cbir evaluate run`."""

import shutil
from collections import defaultdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cbir import settings
from cbir.api.main import app
from cbir.errors import InvalidInput
from cbir.images import read_images
from cbir.search import Request, Searcher, Stopwatch
from cbir.store import Collection
from tests.cbir.evaluation.small_run import COUNT, FAST, draw, index, labels_of, lines, rows, run, summary


def test_same_patient_is_there_when_asked_for(collection, tmp_path):
    options = ("--same-patient", "--rerank", "none", "--depth", "0", *FAST)
    run("--collection", collection.folder, "--out", tmp_path, *options)
    found = lines(tmp_path / "runs" / "none.run")
    assert len(found) == 45 * (COUNT - 1)
    assert all(line[0] != line[2] for line in found)
    assert "as requested" in (tmp_path / "report.html").read_text()


def test_labels_in_the_csv_of_queries_are_no_formulas(tmp_path):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    collection = index(tmp_path / "collection", pictures)
    ids = [record.image_id for _, record in collection.iterate()]
    with collection.writer() as writer:
        writer.label_images("label", {image_id: f"=HYPERLINK({n % 2})" for n, image_id in enumerate(ids)})
        writer.set_labels(ids[0], {"label": "x;@rare"})
        writer.finish()
    run("--collection", collection.folder, "--out", tmp_path / "out", "--rerank", "none", *FAST)
    assert {row["class"] for row in rows(tmp_path / "out")} == {
        "'=HYPERLINK(0)", "'=HYPERLINK(1)", "x;'@rare"
    }  # fmt: skip


def test_files_as_queries(collection, pictures, tmp_path):
    folder = Path(shutil.copytree(pictures, tmp_path / "pictures"))
    path = folder / "queries.csv"
    asked = [3, 4, 45, 46, 100, 101]  # in the collection, of a rare class, without a label, and new ones
    for number in (100, 101):
        draw(folder / f"{number}.png", number)
    said = [f"{n}.png,{labels_of(n)['label']},{labels_of(n)['patient']}" for n in asked]
    path.write_text("\n".join(["path,label,patient", *said]))
    printed = run(
        "--collection", collection.folder, "--out", tmp_path, "--queries", path, "--depth", "0", *FAST
    )
    assert "1 more have no relevant image" in printed
    found = summary(tmp_path)["queries"]
    assert (found["given"], found["evaluated"], len(found["without_relevant"])) == (6, 4, 1)
    answers = defaultdict(list)
    for line in lines(tmp_path / "runs" / "none.run"):
        answers[line[0]].append(line[2])
    # Queries in the collection leave out themselves and their patient's images; new ones have nothing to leave out.
    assert sorted(map(len, answers.values())) == [COUNT - 4, COUNT - 4, COUNT, COUNT]
    assert [row["row"] for row in rows(tmp_path) if row["run"] == "none"] == ["1", "2", "5", "6"]
    new = next(iter(read_images(folder / "100.png")))
    answer = Searcher(collection, settings.load()).by_image(new, Request(k=COUNT, rerank="none"), Stopwatch())
    assert [hit.image_id for hit in answer.results] == answers[new.content_hash]


def test_the_patient_of_dicom_queries_is_that_of_their_header(tmp_path):
    invoke = CliRunner().invoke
    files, folder = tmp_path / "files", tmp_path / "collection"
    assert (
        invoke(
            app, ["dataset", "phantoms", str(files), "--count", "8", "--size", "64", "--format", "dicom"]
        ).exit_code
        == 0
    )
    made = ["index", str(files), "--collection", str(folder), "--profile", "huang2012", "--jobs", "1"]
    assert invoke(app, made).exit_code == 0
    queries = sorted(files.glob("*.dcm"))
    path = tmp_path / "queries.csv"
    path.write_text("\n".join(["path,modality", *(f"{file},DX" for file in queries)]))
    run(
        "--collection", folder, "--out", tmp_path / "out", "--queries", path, "--relevance", "modality",
        "--rerank", "none", *FAST,
    )  # fmt: skip
    with Collection(folder) as made:
        patient_of = {record.image_id: record.patient_key for _, record in made.iterate()}
        own = {record.content_hash: record.patient_key for _, record in made.iterate()}
    assert None not in patient_of.values()
    assert 1 < len(set(patient_of.values())) < len(patient_of)
    for query, _, image, *_ in lines(tmp_path / "out" / "runs" / "none.run"):
        assert patient_of[image] != own[query]


def test_gains_that_a_measure_does_not_know_stop_it_before_the_search(collection, pictures, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("\n".join(["path,severity", *(f"{pictures}/{n}.png,{n % 7}" for n in range(12))]))
    made = ["index", str(pictures), "--collection", str(tmp_path / "c"), "--labels", str(path)]
    made += ["--profile", "color_layout", "--jobs", "1"]
    assert CliRunner().invoke(app, made).exit_code == 0
    options = ("--relevance", "grade:severity", "--measures", "ERR@10", *FAST)
    with pytest.raises(InvalidInput, match=r"ERR@10.*up to 4.*up to 6"):
        run("--collection", tmp_path / "c", "--out", tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()


def test_irma_axes_and_grades(collection, tmp_path):
    options = ("--rerank", "none", "--depth", "0", "--measures", "P@1 nDCG", *FAST)
    run("--collection", collection.folder, "--out", tmp_path, "--relevance", "irma:T", *options)
    assert set(summary(tmp_path)["runs"][0]["classes"]) == {"1120", "1121", "1122"}
    run("--collection", collection.folder, "--out", tmp_path, "--relevance", "irma:TA", *options)
    found = summary(tmp_path)
    assert found["relevance"]["unjudged_candidates"] == 1  # its anatomy holds a *
    assert found["queries"]["evaluated"] == COUNT - 1
    run("--collection", collection.folder, "--out", tmp_path, "--relevance", "half+grade", *options)
    found = summary(tmp_path)
    assert (found["relevance"]["level"], found["relevance"]["largest_gain"]) == (3, 3)
    assert {gain for *_, gain in lines(tmp_path / "qrels.txt")} == {"1", "2", "3"}
    assert "3 minus the difference" in (tmp_path / "report.html").read_text()


def test_a_condition_limits_answers_and_queries(collection, tmp_path):
    run("--collection", collection.folder, "--out", tmp_path, "--where", "half=1", "--rerank", "none", *FAST)
    found = summary(tmp_path)
    assert found["relevance"]["candidates"] == 24
    kept = {record.image_id for _, record in collection.iterate() if record.labels["half"] == "1"}
    assert {name for line in lines(tmp_path / "runs" / "none.run") for name in (line[0], line[2])} <= kept


def test_a_sample_does_not_depend_on_the_order_of_indexing(collection, pictures, tmp_path):
    turned = Collection.create(tmp_path / "turned", collection.profile)
    entries = [(record, collection.vector(record.image_id)) for _, record in collection.iterate()]
    with turned.writer() as writer:
        writer.add(entries[::-1])
        writer.finish()
    samples = []
    for folder in (collection.folder, turned.folder):
        run("--collection", folder, "--out", tmp_path / "out", "--sample", "7", "--rerank", "none", *FAST)
        samples.append({row["query"] for row in rows(tmp_path / "out")})
    assert len(samples[0]) == 7
    assert samples[0] == samples[1]


def test_a_sample_is_repeatable(collection, tmp_path):
    options = ("--sample", "10", "--rerank", "none", *FAST)
    qrels = []
    for seed in ("0", "0", "1"):
        run("--collection", collection.folder, "--out", tmp_path, *options, "--seed", seed)
        qrels.append((tmp_path / "qrels.txt").read_text())
    assert qrels[0] == qrels[1] != qrels[2]
