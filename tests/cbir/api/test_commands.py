"""Command line end to end."""

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import CbirError, CollectionDamaged, InvalidInput
from cbir.store import Collection
from cbir.store.base import profile as profiles
from tests.cbir.store.conftest import entry


@pytest.fixture
def folder(tmp_path):
    made = Collection.create(tmp_path / "collection", profiles.get("tamura"))
    with made.writer() as writer:
        labelled = [entry(n, patient=f"p{n // 5}", labels={"label": "ab"[n % 2]}) for n in range(40)]
        writer.add(labelled)
        writer.finish()
    made.close()
    return made.folder


def run(*arguments, code=0):
    """Run a command in this process; what it printed."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout


def collection(*arguments, folder, code=0):
    return json.loads(run("collection", *arguments, "--collection", folder, "--format", "json", code=code))


def process(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "cbir.api.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_info(folder):
    facts = collection("info", folder=folder)
    assert (facts["images"], facts["profile"], facts["labels"]) == (40, "tamura", {"label": 40})
    assert "tamura" in run("collection", "info", "--collection", folder)


def test_verify_reports_damage(folder):
    assert collection("verify", folder=folder) == {"ok": True, "problems": []}
    (snapshot,) = (folder / "snapshots").glob("*.index")
    snapshot.write_bytes(snapshot.read_bytes()[:-1] + b"\xff")
    found = collection("verify", folder=folder, code=1)
    assert not found["ok"]
    assert "compact" in found["problems"][0]
    collection("compact", folder=folder)
    assert collection("verify", folder=folder)["ok"]


def test_verify_repairs(folder):
    with Collection(folder) as opened, opened._engine.begin() as connection:
        for number in (3, 4):
            connection.exec_driver_sql("UPDATE vectors SET vector = zeroblob(24) WHERE number = ?", (number,))
        connection.exec_driver_sql("UPDATE labels SET value = 'c' WHERE number = 5")
    assert len(collection("verify", folder=folder, code=1)["problems"]) == 2
    with pytest.raises(CollectionDamaged, match=entry(4)[0].content_hash):
        run("collection", "compact", "--collection", folder)
    repaired = collection("verify", "--repair", folder=folder)
    assert repaired["ok"]
    assert (len(repaired["restored"]), repaired["lost"]) == (2, [])
    assert "restored" not in run("collection", "verify", "--repair", "--collection", folder)


def test_what_cannot_be_repaired_is_named_with_what_to_do(folder):
    late = entry(100)[0].content_hash
    with Collection(folder) as opened:
        with opened.writer() as writer:
            writer.add([entry(100)])
        with opened._engine.begin() as connection:
            connection.exec_driver_sql("UPDATE vectors SET vector = zeroblob(24) WHERE number = 41")
    printed = run("collection", "verify", "--repair", "--collection", folder, code=1)
    assert f"not restored: vectors of 1 images ({late})" in printed
    collection("delete", "--yes", late, folder=folder)
    assert collection("verify", folder=folder)["ok"]


def test_old_history_is_pruned_on_request(folder):
    with Collection(folder) as opened:
        with opened.writer() as writer:
            writer.delete([entry(0)[0].content_hash])
        numbers = [change.change for change in opened.history()]
        with opened._engine.begin() as connection:
            connection.exec_driver_sql(
                "UPDATE changes SET at = '2020-01-01T00:00:00+00:00' WHERE what = 'added'"
            )
        collection("compact", "--history-days", 30, "--deleted-days", 30, folder=folder)
        assert [change.what for change in opened.history()] == ["deleted"]
        with opened.writer() as writer:
            assert writer.add([entry(0)]).deleted_earlier == 1
        collection("compact", "--deleted-days", 0, "--history-days", 0, folder=folder)
        assert opened.history() == []
        with opened.writer() as writer:
            assert len(writer.add([entry(0)]).ids) == 1
        (newest,) = opened.history()
        assert newest.change > max(numbers)


def test_backup_is_continued_and_restored(folder, tmp_path):
    first = collection("backup", tmp_path / "backup", "--log", folder=folder)
    assert first["verified"]
    with Collection(folder) as opened, opened.writer() as writer:
        writer.add([entry(100)])
        at = opened.history(limit=1)[0].change
        writer.add([entry(101)])
    assert collection("backup", tmp_path / "backup", "--append", folder=folder)["transactions_appended"] == 2
    made = json.loads(
        run("collection", "restore", tmp_path / "backup", tmp_path / "old", "--at", at, "--format", "json")
    )
    assert (made["images"], made["change"], made["verified"]) == (41, at, True)
    run("collection", "restore", tmp_path / "backup", tmp_path / "new")
    assert collection("info", folder=tmp_path / "new")["images"] == 42
    with pytest.raises(InvalidInput, match="soon"):
        run("collection", "restore", tmp_path / "backup", tmp_path / "x", "--at", "soon")


def test_delete_by_id_and_by_label(folder):
    first = entry(0)[0].content_hash
    assert collection("delete", "--yes", first, folder=folder) == {"deleted": 1, "unknown": None}
    assert collection("delete", "--yes", first, folder=folder, code=1) == {"deleted": 0, "unknown": first}
    assert collection("delete", "--yes", "--where", "label=b", folder=folder)["deleted"] == 20
    assert collection("info", folder=folder)["images"] == 19


def test_erase_patient(folder):
    assert collection("erase-patient", "--yes", "p3", folder=folder) == {"erased": 5}
    assert collection("erase-patient", "--yes", "p3", folder=folder, code=1) == {"erased": 0}


def test_compact_with_refit(folder):
    facts = collection("compact", "--refit", folder=folder)
    assert facts["images"] == 40


def test_export(folder, tmp_path):
    assert collection("export", tmp_path / "out", folder=folder)["exported"] == 40
    assert np.load(tmp_path / "out" / "vectors.npy").shape == (40, 6)


def test_tune_keeps_the_best_with_the_collection(folder):
    facts = collection("tune", "--queries", "4", folder=folder)
    assert len(facts["tried"]) == 24
    assert collection("info", folder=folder)["rerank"] == {"C": facts["C"], "gamma": facts["gamma"]}


def test_tune_several_methods(folder):
    options = ("--rerank", "fuzzy-eprf", "--rerank", "diffusion-eprf", "--queries", "2")
    facts = collection("tune", *options, folder=folder)
    assert len(facts["tried"]) == 32
    assert facts["tried"][0].startswith("fuzzy-eprf C=")
    stored = collection("info", folder=folder)["rerank"]
    for method in ("fuzzy-eprf", "diffusion-eprf"):
        assert stored[method] == {name: facts[method][name] for name in ("C", "gamma")}
    assert "fuzzy-eprf" in run("collection", "tune", *options, "--collection", folder)
    with pytest.raises(InvalidInput, match="aqe has no SVMs to tune"):
        run("collection", "tune", "--rerank", "eprf", "--rerank", "aqe", "--collection", folder)
    assert collection("info", folder=folder)["rerank"] == stored


@pytest.mark.parametrize("form", ["table", "json", "trec"])
def test_search_by_id_in_every_form(folder, form):
    query = entry(3)[0].content_hash
    printed = run("search", f"id:{query}", "--collection", folder, "-k", 5, "--format", form)
    assert query not in printed.replace(f"{query} Q0", "") if form == "trec" else printed
    if form == "json":
        assert len(json.loads(printed)["results"]) == 5
    if form == "trec":
        assert len(printed.splitlines()) == 5


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["search", "id:nobody"], "nobody"),
        (["search", "/nowhere.png"], "nowhere.png"),
        (["search", "id:{known}", "--where", "label"], "filter"),
        (["search", "id:{known}", "--rerank", "magic"], "magic"),
        (["search", "id:{known}", "--parameter", "P"], "NAME=NUMBER"),
        (["search", "id:{known}", "--rerank", "eprf", "--parameter", "P=0"], "P must be"),
        (["search", "id:{known}", "-k", "0"], "-k"),
        (["collection", "delete"], "--where"),
    ],
)
def test_bad_input_is_refused_with_a_reason(folder, arguments, reason):
    known = entry(3)[0].content_hash
    done = CliRunner().invoke(
        app, [*(part.format(known=known) for part in arguments), "--collection", str(folder)]
    )
    assert isinstance(done.exception, CbirError) or done.exit_code == 2
    assert reason in (str(done.exception) + done.stderr)
    assert done.stdout == ""


@pytest.mark.slow
def test_a_missing_collection_is_named_in_one_line(tmp_path):
    done = process("collection", "info", "--collection", tmp_path / "none")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no collection" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_help_names_every_command():
    printed = run("--help")
    for name in ("admin", "collection", "dataset", "describe", "index", "search", "serve"):
        assert name in printed


def test_importing_the_library_is_quick_and_light():
    code = (
        "import sys, time; start = time.process_time(); import cbir; took = time.process_time() - start; "
        "heavy = {'torch', 'flask', 'pynetdicom', 'cv2', 'faiss', 'sqlalchemy'} & sys.modules.keys(); "
        "print(took, *heavy)"
    )
    took, *heavy = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert heavy == []
    assert float(took) < 1


def test_deleting_says_how_many_and_asks(folder, monkeypatch):
    assert collection("delete", "--where", "label=b", "--dry-run", folder=folder) == {"would_delete": 20}
    assert collection("erase-patient", "p3", "--dry-run", folder=folder) == {"would_erase": 5}
    with pytest.raises(InvalidInput, match="would delete 20 of 40 images for good; add --yes"):
        run("collection", "delete", "--where", "label=b", "--collection", folder)
    with pytest.raises(InvalidInput, match="would erase 5 of 40 images, and every trace of the patient; add"):
        run("collection", "erase-patient", "p3", "--collection", folder)
    assert collection("info", folder=folder)["images"] == 40


@pytest.mark.parametrize(("answer", "deleted", "code"), [("n", 0, 1), ("y", 20, 0)])
def test_the_question_on_a_terminal(folder, monkeypatch, answer, deleted, code):
    monkeypatch.setattr("cbir.api.commands.change_collection.can_ask", lambda: True)
    arguments = ["collection", "delete", "--where", "label=b", "--collection", str(folder)]
    done = CliRunner().invoke(app, arguments, input=answer)
    assert "Delete 20 of 40 images for good? [y/N]" in done.stderr
    assert done.exit_code == code
    assert collection("info", folder=folder)["images"] == 40 - deleted
