"""`cbir evaluate run`: reuse of finished runs, interruption and wrong use."""

import json
import signal
import subprocess
import sys
import time

import pytest

from cbir import settings
from cbir.errors import CollectionBusy
from cbir.evaluation.relevance import select_candidates
from cbir.evaluation.runs import Method, RunWriter, SearchProtocol, read_finished
from cbir.evaluation.search_pool import SearchTask, open_search_pool
from cbir.search import Request
from tests.cbir.evaluation.small_run import FAST, index, refused, run, summary
from tests.held_files import hold_opening


def test_finished_runs_are_used_again_while_nothing_has_changed(tmp_path):
    own = index(tmp_path / "own", tmp_path)
    out = tmp_path / "out"
    common = ("--collection", own.folder, "--out", out, "--rerank", "none pearson")
    common += ("--sample", "6", *FAST)

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


def test_a_finished_run_without_an_answer_is_used_again(tmp_path):
    own = index(tmp_path / "own", tmp_path)
    runner = RunWriter(own, select_candidates(own), (), SearchProtocol(5), settings.load(), tmp_path)
    with open_search_pool(own.folder, settings.load(), 1) as pool:
        first = runner.run(Method("none", "none"), pool, lambda done: None)
        again = runner.run(Method("none", "none"), pool, lambda done: None)
    assert (tmp_path / "none.run").read_bytes() == b""
    assert (first.facts["reused"], again.facts["reused"]) == (False, True)


def test_a_run_that_an_earlier_version_finished_is_used_again(tmp_path):
    path = tmp_path / "none.run"
    path.write_text("q Q0 a 1 2 none\n")
    saved = {"decisive": {"k": 1}, "facts": {"answers": 1}, "bytes": path.stat().st_size}
    path.with_suffix(".json").write_text(json.dumps(saved))
    assert read_finished(path, {"k": 1}) == {"answers": 1}
    assert read_finished(path, {"k": 2}) is None
    path.write_text("q Q0 a 1 2 no")
    assert read_finished(path, {"k": 1}) is None


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
def test_wrong_use_is_refused_with_a_reason(collection, tmp_path, arguments, said):
    assert said in refused("--collection", collection.folder, "--out", tmp_path / "out", *FAST, *arguments)
    assert not list(tmp_path.glob("out/runs/*"))


def test_query_files_that_cannot_be_read_are_named(collection, tmp_path):
    (tmp_path / "damaged.png").write_bytes(b"no picture")
    path = tmp_path / "queries.csv"
    path.write_text("path,label\ndamaged.png,fine\nmissing.png,fine\n")
    said = refused("--collection", collection.folder, "--queries", path, "--out", tmp_path / "out", *FAST)
    assert "2 query files" in said
    assert "damaged.png" in said
    assert "missing.png" in said


def test_interrupted_it_keeps_what_was_finished_and_nothing_half(collection, tmp_path, monkeypatch):
    runs = tmp_path / "runs"
    runs.mkdir()
    hold_opening(runs / "pearson", monkeypatch)
    command = [sys.executable, "-m", "cbir.api.main", "evaluate", "run", "--collection", collection.folder]
    started = subprocess.Popen(
        [*command, "--out", tmp_path, "--rerank", "none pearson", *FAST], stderr=subprocess.PIPE, text=True
    )
    while not (runs / "none.json").exists():
        assert started.poll() is None
        time.sleep(0.02)
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=300)
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
    command = [sys.executable, "-m", "cbir.api.main", "evaluate", "run", "--collection", collection.folder]
    done = subprocess.run([*command, "--out", tmp_path / "file"], capture_output=True, text=True, timeout=400)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "need a folder" in done.stderr


def test_other_commands_do_not_load_it():
    code = (
        "import sys, cbir.api.main, cbir.api.commands.search_images, cbir.evaluation.commands.evaluate_commands\n"
        "print(*{'ir_measures', 'pytrec_eval'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=400
    )
    assert done.stdout.strip() == ""
