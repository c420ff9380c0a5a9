"""`cbir evaluate run` on a small collection of real files, end to end."""

import csv
import json
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict

import cv2
import numpy as np
import pytest
import pytrec_eval
from typer.testing import CliRunner

from cbir import rerank, settings
from cbir.descriptors import get as descriptor
from cbir.errors import CollectionBusy, InvalidInput
from cbir.evaluation.search_pool import SearchTask, open_search_pool
from cbir.images import read_images
from cbir.main import app
from cbir.search import Request, Searcher, Stopwatch
from cbir.store import Collection
from cbir.store import profile as profiles
from cbir.store.records import add_labels, describe_record

COUNT = 48
FAST = ("--jobs", "1", "--no-pictures")


def draw(path, number):
    """A picture: fine texture for even numbers, coarse for odd ones."""
    noise = np.random.default_rng(number).integers(0, 256, (48, 48), np.uint8)
    cv2.imwrite(str(path), cv2.GaussianBlur(noise, (0, 0), 4) if number % 2 else noise)


def labels_of(number):
    """Two labels; one image of a class of its own, two without; patients of four images; grades and codes."""
    label = {45: "rare", 46: "", 47: ""}.get(number, "coarse" if number % 2 else "fine")
    return {
        "label": label,
        "half": str(number // 24),
        "grade": str(number % 4),
        "irma_code": f"112{number % 3}-120-{'7*' if number == 5 else '70'}0-500",
        "patient": f"Doe^{number // 4}",
    }


def index(folder, pictures):
    made = Collection.create(folder, profiles.get("tamura"))
    entries = []
    for number in range(COUNT):
        path = pictures / f"{number}.png"
        draw(path, number)
        image = next(iter(read_images(path)))
        found = describe_record(image, source=str(path), source_stamp="1", secret=made.secret)
        entries.append((add_labels(found, labels_of(number), made.secret), descriptor("tamura")(image)))
    with made.writer() as writer:
        writer.add(entries)
        writer.finish()
    return made


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return tmp_path_factory.mktemp("pictures")


@pytest.fixture(scope="module")
def collection(tmp_path_factory, pictures):
    return index(tmp_path_factory.mktemp("indexed") / "collection", pictures)


def run(*arguments, code=0):
    """Run `cbir evaluate run` in this process; what it printed."""
    done = CliRunner().invoke(app, ["evaluate", "run", *map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.output


def summary(out):
    return json.loads((out / "summary.json").read_text())


def rows(out):
    with (out / "queries.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def lines(path):
    return [line.split() for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def out(collection, tmp_path_factory):
    """What every re-ranker's evaluation by label left."""
    folder = tmp_path_factory.mktemp("out")
    options = ("--rerank", "all", "--depth", "0", "--jobs", "2")
    names = "AP P@5 nDCG RR IPrec@0.5 ANMRR mAP@5 mMV@5 ACC@1 kNNError@1"
    run("--collection", collection.folder, "--out", folder, *options, "--measures", names)
    return folder


def test_run_files_are_what_the_service_answers(collection, out):
    searcher = Searcher(collection, settings.load())
    by_query = defaultdict(list)
    for query, q0, image, rank, score, tag in lines(out / "runs" / "eprf.run"):
        assert (q0, tag) == ("Q0", "eprf")
        by_query[query].append((int(rank), image, float(score)))
    assert len(by_query) == 45
    for query in list(by_query)[::9]:
        patient = collection.record(query).patient_key
        answer = searcher.by_id(query, Request(k=100, rerank="eprf", exclude_patient=patient), Stopwatch())
        assert [(hit.rank, hit.image_id) for hit in answer.results] == [(r, i) for r, i, _ in by_query[query]]
        np.testing.assert_allclose(
            [hit.score for hit in answer.results], [s for _, _, s in by_query[query]], rtol=1e-5
        )
    for answers in by_query.values():
        scores = np.array([score for _, _, score in answers], np.float32)
        assert (np.diff(scores) < 0).all()


def test_files_give_trec_eval_the_same_figures(out):
    with (out / "qrels.txt").open() as file:
        qrels = pytrec_eval.parse_qrel(file)
    names = {
        "AP": "map",
        "P@5": "P_5",
        "nDCG": "ndcg",
        "RR": "recip_rank",
        "IPrec@0.5": "iprec_at_recall_0.50",
    }
    for found in summary(out)["runs"]:
        with (out / found["file"]).open() as file:
            values = pytrec_eval.RelevanceEvaluator(qrels, set(names.values())).evaluate(
                pytrec_eval.parse_run(file)
            )
        for ours, theirs in names.items():
            mean = np.mean([value[theirs] for value in values.values()])
            assert found["measures"][ours]["mean"] == pytest.approx(mean, abs=1e-6), (found["name"], ours)


def test_same_patient_is_left_out_of_answers_and_judgements(collection, out):
    patient = {record.image_id: record.patient_key for _, record in collection.iterate()}
    for path in (out / "qrels.txt", out / "runs" / "none.run"):
        assert all(patient[line[0]] != patient[line[2]] for line in lines(path))
    answers = [line[0] for line in lines(out / "runs" / "none.run")]
    assert len(answers) == 45 * (COUNT - 4)


def test_same_patient_is_there_when_asked_for(collection, tmp_path):
    options = ("--same-patient", "--rerank", "none", "--depth", "0", *FAST)
    run("--collection", collection.folder, "--out", tmp_path, *options)
    found = lines(tmp_path / "runs" / "none.run")
    assert len(found) == 45 * (COUNT - 1)
    assert all(line[0] != line[2] for line in found)
    assert "as requested" in (tmp_path / "report.html").read_text()


def test_the_summary_says_on_what_terms(out):
    found = summary(out)
    assert found["collection"]["images"] == COUNT
    assert found["queries"] | {"without_relevant": 0} == {
        "from": "leave-one-out", "given": COUNT, "sample": None, "seed": 0, "evaluated": 45, "without_relevant": 0,
    }  # fmt: skip
    assert len(found["queries"]["without_relevant"]) == 1
    assert found["relevance"]["unjudged_candidates"] == 2
    assert found["relevance"]["level"] == 1
    assert [one["name"] for one in found["runs"]] == list(rerank.names())
    first, second = found["runs"][0]["measures"]["AP"], found["runs"][1]["measures"]["AP"]
    assert first["low"] <= first["mean"] <= first["high"]
    assert "p" not in first
    assert second["difference"] == pytest.approx(second["mean"] - first["mean"])
    assert 0 < second["p"] <= second["p_holm"] <= 1
    classes = found["runs"][0]["classes"]
    assert set(classes) == {"coarse", "fine"}
    assert len(found["runs"][0]["precision_at_recall"]) == 21


def test_values_of_single_queries_average_to_the_summary(out):
    found = rows(out)
    none = [float(row["AP"]) for row in found if row["run"] == "none"]
    assert len(none) == 45
    assert np.mean(none) == pytest.approx(summary(out)["runs"][0]["measures"]["AP"]["mean"], abs=1e-5)
    (without,) = [row for row in found if not row["run"]]
    assert (without["class"], without["relevant"], without["AP"]) == ("rare", "0", "")
    assert without["query"] == summary(out)["queries"]["without_relevant"][0]


def test_the_report_holds_what_it_must(out):
    report = (out / "report.html").read_text()
    for needed in (
        "45 are evaluated", "1 of the queries, in no average", summary(out)["queries"]["without_relevant"][0],
        "2 images lack the labels", "Relevance level 1", "Ties", "Images of the query's own patient",
        "95 % bootstrap intervals", "Holm", "Best queries by AP", "Worst queries by AP", "<svg", 'class="curve"',
        "data:image/jpeg;base64,", "prefers-color-scheme: dark",
    ):  # fmt: skip
        assert needed in report, needed
    for method in rerank.names():
        assert f"<summary>{method}</summary>" in report
    assert len(re.findall(r'<figure class="asked">', report)) == 10 * len(rerank.names())
    assert not re.search(r"<script|https?://(?!www\.w3\.org/2000/svg)|Doe\^", report)
    for patient in ("Doe", *{f"Doe^{number}" for number in range(12)}):
        for path in ("queries.csv", "summary.json", "qrels.txt", "runs/none.json"):
            assert patient not in (out / path).read_text()


def test_files_as_queries(collection, pictures, tmp_path):
    path = pictures / "queries.csv"
    asked = [3, 4, 45, 46, 100, 101]  # in the collection, of a rare class, without a label, and new ones
    for number in (100, 101):
        draw(pictures / f"{number}.png", number)
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
    new = next(iter(read_images(pictures / "100.png")))
    answer = Searcher(collection, settings.load()).by_image(new, Request(k=COUNT, rerank="none"), Stopwatch())
    assert [hit.image_id for hit in answer.results] == answers[new.content_hash]


def test_the_patient_of_dicom_queries_is_that_of_their_header(tmp_path):
    invoke = CliRunner().invoke
    files, folder = tmp_path / "files", tmp_path / "collection"
    assert (
        invoke(app, ["phantoms", str(files), "--count", "8", "--size", "64", "--format", "dicom"]).exit_code
        == 0
    )
    assert invoke(app, ["index", str(files), "--collection", str(folder)]).exit_code == 0
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


def test_finished_runs_are_used_again_while_nothing_has_changed(collection, tmp_path, pictures):
    own = index(tmp_path / "own", pictures)
    out = tmp_path / "out"
    common = ("--collection", own.folder, "--out", out, "--rerank", "none pearson", *FAST)

    def reused():
        return [one["reused"] for one in summary(out)["runs"]]

    run(*common)
    assert reused() == [False, False]
    before = summary(out)["runs"]
    run(*common, "--measures", "AP RR")
    assert reused() == [True, True]
    assert summary(out)["runs"][0]["measures"]["AP"] == before[0]["measures"]["AP"]
    (out / "runs" / "pearson.run").write_text("cut short")
    run(*common)
    assert reused() == [True, False]
    run(*common, "--depth", "5")
    assert reused() == [False, False]
    with own.writer() as writer:
        writer.delete([next(own.iterate())[1].image_id])
    run(*common, "--depth", "5")
    assert reused() == [False, False]
    assert not list((out / "runs").glob(".*"))


def test_a_sample_is_repeatable(collection, tmp_path):
    options = ("--sample", "10", "--rerank", "none", *FAST)
    for name in ("a", "b"):
        run("--collection", collection.folder, "--out", tmp_path / name, *options)
    run("--collection", collection.folder, "--out", tmp_path / "c", *options, "--seed", "1")
    a, b, c = ((tmp_path / name / "qrels.txt").read_text() for name in "abc")
    assert a == b
    assert a != c


def test_one_method_has_no_comparison(collection, tmp_path):
    run("--collection", collection.folder, "--out", tmp_path, "--rerank", "none", "--measures", "AP", *FAST)
    assert "Holm" not in (tmp_path / "report.html").read_text()
    assert "Best queries" not in (tmp_path / "report.html").read_text()


def test_pictures_that_changed_since_are_not_shown(tmp_path):
    own = index(tmp_path / "own", tmp_path)
    for number in range(COUNT):
        (tmp_path / f"{number}.png").unlink() if number % 4 < 2 else draw(
            tmp_path / f"{number}.png", 1000 + number
        )
    options = ("--rerank", "none", "--sample", "4", "--jobs", "1")
    run("--collection", own.folder, "--out", tmp_path / "out", *options)
    report = (tmp_path / "out" / "report.html").read_text()
    assert "its file is missing or has changed" in report
    assert "data:image" not in report


def test_a_collection_that_changes_meanwhile_stops_it(collection):
    record = next(collection.iterate())[1]
    asked = [SearchTask(record.image_id, None, record.content_hash, Request(k=3, rerank="none"))]
    with open_search_pool(collection.folder, settings.load(), 1) as pool:
        assert len(list(pool.search(asked, collection.generation()))) == 1
        with pytest.raises(CollectionBusy, match="changed during"):
            list(pool.search(asked, collection.generation() - 1))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--relevance", "colour"), "needs: colour"),
        (("--relevance", "irma:Z"), "irma:"),
        (("--relevance", "grade:half+grade"), "two grades"),
        (("--rerank", "magic"), "magic"),
        (("--rerank", ""), "at least one re-ranker"),
        (("--rerank", "eprf:P=0"), "P must be"),
        (("--measures", "magic"), "magic"),
        (("--measures", "Bpref"), "Bpref"),
        (("--where", "half"), "filter"),
        (("--where", "half=9"), "no image with half=9"),
        (("--level", "2"), "level"),
        (("--queries", "nowhere.csv"), "nowhere.csv"),
        (("--relevance", "label:number"), "needs: number"),
    ],
)
def test_wrong_use_is_one_line(collection, tmp_path, arguments, said):
    command = [sys.executable, "-m", "cbir.main", "evaluate", "run", "--collection", collection.folder]
    done = subprocess.run(
        [*command, "--out", tmp_path / "out", *FAST, *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("out/runs/*"))


def test_query_files_that_cannot_be_read_are_named(collection, tmp_path):
    (tmp_path / "damaged.png").write_bytes(b"no picture")
    path = tmp_path / "queries.csv"
    path.write_text("path,label\ndamaged.png,fine\nmissing.png,fine\n")
    command = [sys.executable, "-m", "cbir.main", "evaluate", "run", "--collection", collection.folder]
    done = subprocess.run(
        [*command, "--queries", path, "--out", tmp_path / "out", *FAST],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "2 query files" in done.stderr
    assert "damaged.png" in done.stderr
    assert "missing.png" in done.stderr


def test_interrupted_it_keeps_what_was_finished_and_nothing_half(collection, tmp_path):
    slow = "eprf:P=50:T1=100:T2=100:seed="
    methods = " ".join(["none", *(f"{slow}{seed}" for seed in range(40))])
    command = [sys.executable, "-m", "cbir.main", "evaluate", "run", "--collection", collection.folder]
    started = subprocess.Popen(
        [*command, "--out", tmp_path, "--rerank", methods, *FAST], stderr=subprocess.PIPE, text=True
    )
    runs = tmp_path / "runs"
    limit = time.monotonic() + 60
    while not (runs / "none.json").exists() and time.monotonic() < limit:
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=60)
    assert started.returncode not in (0, 2)
    assert "Traceback" not in said
    kept = sorted(runs.iterdir())
    assert runs / "none.run" in kept
    assert not [path for path in kept if path.name.startswith(".")]
    assert all(path.with_suffix(".run") in kept for path in kept if path.suffix == ".json")
    assert not (tmp_path / "summary.json").exists()
    run("--collection", collection.folder, "--out", tmp_path, "--rerank", "none", *FAST)
    assert summary(tmp_path)["runs"][0]["reused"]


def test_out_must_be_a_folder(collection, tmp_path):
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "cbir.main", "evaluate", "run", "--collection", collection.folder]
    done = subprocess.run([*command, "--out", tmp_path / "file"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, "need a folder" in done.stderr) == (2, True)


def test_other_commands_do_not_load_it():
    code = (
        "import sys, cbir.main, cbir.commands.search_images, cbir.commands.evaluate\n"
        "print(*{'ir_measures', 'pytrec_eval'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""
