"""`cbir irma evaluate`: made-up releases from zip to error score."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from cbir import rerank
from cbir.api.main import app
from cbir.errors import InvalidInput, NotFound
from cbir.evaluation.datasets.irma.phantom_release import write_phantom_release
from tests.cbir.evaluation.datasets.irma_reference import reference_classes

STEP, SHARE = 10, 0.03  # every tenth code, with 3 % of its images


def run(*arguments):
    done = CliRunner().invoke(app, ["evaluate", *map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def evaluate(root, release, out, *more):
    common = ("--tree", root / "2009-tree.txt", "--out", out, "--profile", "huang2012", "--sample", 40)
    return run("irma", release, *common, "-k", 10, "--jobs", 1, *more)


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """Zips of both layouts, with the published codes."""
    root = tmp_path_factory.mktemp("releases")
    for year in ("2007", "2009"):
        write_phantom_release(root / f"{year}.zip", year, reference_classes(SHARE, STEP), size=48, distinct=2)
    return root


@pytest.fixture(scope="module")
def scored(releases, tmp_path_factory):
    """Results of every re-ranker on the release of 2009."""
    out = tmp_path_factory.mktemp("irma") / "out"
    methods = " ".join(["auto", *rerank.names()])
    facts = json.loads(
        evaluate(releases, releases / "2009.zip", out, "--rerank", methods, "--format", "json")
    )
    return out, facts


def test_every_reranker_gets_a_score_from_the_zip(scored):
    out, facts = scored
    classes = reference_classes(SHARE, STEP)
    assert (facts["release"], facts["labelling"], facts["rule"]) == ("2009", "2008", "2009")
    assert facts["train"] == sum(item.train for item in classes)
    assert facts["test"] == sum(item.test for item in classes)
    assert (facts["refused"], facts["dropped"]) == (0, {})
    assert [result["method"] for result in facts["results"]] == ["auto", *rerank.names()]
    for result in facts["results"]:
        measured = result["measured"]
        assert 0 <= measured["error"] < min(measured["baselines"].values())
        assert measured["images"] == facts["test"]
    assert json.loads((out / "results.json").read_text()) == facts


def test_scores_are_those_of_the_scorer(releases, scored):
    out, facts = scored
    for result in facts["results"][:3]:
        arguments = (
            "--tree",
            releases / "2009-tree.txt",
            "--truth",
            out / "test.csv",
            "--train",
            out / "train.csv",
        )
        report = json.loads(
            run("irma-error", *arguments, "--run", out / result["submission"], "--format", "json")
        )
        assert report["error"] == pytest.approx(result["measured"]["error"])
        assert report["baselines"] == pytest.approx(result["measured"]["baselines"])


def test_finished_submissions_are_used_again_while_nothing_changes(releases, scored, tmp_path, monkeypatch):
    before = shutil.copytree(scored[0], tmp_path / "out")
    facts = json.loads(
        evaluate(releases, releases / "2009.zip", before, "--rerank", "none pearson", "--format", "json")
    )
    assert [result["reused"] for result in facts["results"]] == [
        False,
        False,
    ]  # another collection's path is indexed
    again = json.loads(
        evaluate(releases, releases / "2009.zip", before, "--rerank", "none pearson", "--format", "json")
    )
    assert [result["reused"] for result in again["results"]] == [True, True]
    (before / "pearson.txt").write_text("cut")
    text = evaluate(releases, releases / "2009.zip", before, "--rerank", "none pearson", "--seed", 0)
    assert "IRMA 2009" in text
    assert "all stars" in text
    results = json.loads((before / "results.json").read_text())["results"]
    assert [result["reused"] for result in results] == [True, False]
    assert [result["measured"] for result in results] == [result["measured"] for result in again["results"]]
    monkeypatch.setenv("CBIR_INDEX_PROBES", "9")
    evaluate(releases, releases / "2009.zip", before, "--rerank", "none")
    (result,) = json.loads((before / "results.json").read_text())["results"]
    assert not result["reused"]


def test_2007_has_its_own_rule(releases, tmp_path):
    out = tmp_path / "out"
    facts = json.loads(evaluate(releases, releases / "2007.zip", out, "--rerank", "none", "--format", "json"))
    assert (facts["release"], facts["labelling"], facts["rule"]) == ("2007", "2007", "2007")
    (result,) = facts["results"]
    assert result["measured"]["rule"] == "2007"
    assert result["measured"]["error"] < min(result["measured"]["baselines"].values())
    # A folder in place of the zip, scored by the other rule
    folder = out / "release"
    other = json.loads(
        evaluate(releases, folder, tmp_path / "b", "--rerank", "none", "--rule", "2009", "--format", "json")
    )
    assert other["rule"] == "2009"
    assert other["results"][0]["measured"]["error"] != result["measured"]["error"]


def test_classes_of_2005_need_no_tree(releases, tmp_path):
    text = run(
        "irma", releases / "2009.zip", "--labelling", "2005", "--out", tmp_path, "--profile", "huang2012",
        "--jobs", 1, "--rerank", "none", "--sample", 20, "-k", 5,
    )  # fmt: skip
    (result,) = json.loads((tmp_path / "results.json").read_text())["results"]
    assert result["measured"]["error_rate"] < 0.9
    assert "error rate" in text


def test_wrong_use(releases, tmp_path):
    with pytest.raises(InvalidInput, match="name it with --tree"):
        run("irma", releases / "2009.zip", "--out", tmp_path / "a")
    with pytest.raises(NotFound, match="no zip or folder"):
        run("irma", tmp_path / "missing.zip", "--out", tmp_path / "a")
    (tmp_path / "r.tar").write_text("no zip")
    with pytest.raises(InvalidInput, match="no zip file; extract"):
        run("irma", tmp_path / "r.tar", "--out", tmp_path / "b")
    with pytest.raises(InvalidInput, match="is a file"):
        run("irma", releases / "2009.zip", "--out", tmp_path / "r.tar")
    with pytest.raises(InvalidInput, match="magic"):
        run("irma", releases / "2009.zip", "--out", tmp_path / "c", "--rerank", "magic")
    assert not (tmp_path / "c").exists()


def test_the_command_for_made_up_releases(tmp_path):
    arguments = [
        "dataset",
        "irma-phantoms",
        str(tmp_path / "r.zip"),
        "--year",
        "2007",
        "--count",
        "75",
        "--size",
        "32",
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "of 25 classes" in done.output
    assert (tmp_path / "r-tree.txt").read_text().startswith("**** technique ****")
