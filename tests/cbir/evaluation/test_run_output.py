"""The files and the report that `cbir evaluate run` writes."""

import re
from collections import defaultdict

import numpy as np
import pytest
import pytrec_eval

from cbir import rerank, settings
from cbir.search import Request, Searcher, Stopwatch
from tests.cbir.evaluation.small_run import COUNT, FAST, draw, index, lines, rows, run, summary
from tests.rights import open_to_others


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


@pytest.mark.parametrize(("depth", "queries"), [(44, 0), (43, 45)])
def test_queries_with_too_few_answers_for_anmrr_are_counted(collection, tmp_path, depth, queries):
    """At most 22 other images are relevant to a query, and ANMRR reads twice as many answers."""
    options = ("--rerank", "none", "--depth", depth, "--measures", "ANMRR", *FAST)
    run("--collection", collection.folder, "--out", tmp_path, *options)
    assert summary(tmp_path)["terms"]["shallower_than_anmrr"] == queries


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


def test_only_the_owner_reads_what_is_written(collection, tmp_path):
    tmp_path.chmod(0o755)
    run("--collection", collection.folder, "--out", tmp_path / "new" / "results", *FAST)
    assert open_to_others(tmp_path) == [str(tmp_path)], "the folder that was there keeps its rights"


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


def test_one_method_has_no_comparison(collection, tmp_path):
    run("--collection", collection.folder, "--out", tmp_path, "--rerank", "none", "--measures", "AP", *FAST)
    assert "Holm" not in (tmp_path / "report.html").read_text()
    assert "Best queries" not in (tmp_path / "report.html").read_text()


def test_the_terminal_shows_intervals_differences_and_how_queries_were_drawn(collection, tmp_path):
    options = ("--rerank", "none eprf", "--measures", "AP", "--sample", "20", *FAST)
    printed = run("--collection", collection.folder, "--out", tmp_path, *options)
    first, second = (each["measures"]["AP"] for each in summary(tmp_path)["runs"])
    table = printed[printed.index("method") :].splitlines()
    assert table[1].split()[:2] == ["none", f"{first['mean']:.4f}"]
    assert table[2].strip() == f"{first['low']:.3f}-{first['high']:.3f}"
    assert table[3].split()[:2] == ["eprf", f"{second['mean']:.4f}"]
    assert [line.strip() for line in table[4:7]] == [
        f"{second['low']:.3f}-{second['high']:.3f}",
        f"{second['difference']:+.4f}",
        f"p = {second['p_holm']:.3f}",
    ]
    assert "queries, evenly from 2 classes" in printed


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
