"""A collection damaged on the disk: `verify` names it, and the service searches in what is still good."""

import json
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from cbir import settings
from cbir.api.main import app
from cbir.errors import CbirError, CollectionDamaged
from cbir.store import Collection
from cbir.store.safety.last_good import NAME
from service.app import create_app
from tests.service.conftest import CBIR, COUNT, ids, indexed, pictures, problem, serving, writable

__all__ = ["ids", "indexed", "pictures", "writable"]  # fixtures of the service's tests, used here too


def damage(path: Path, start: int, length: int) -> None:
    """Overwrite a stretch of a file."""
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xa5" * length)


def checkpoint(folder: Path) -> Path:
    """The database's one file, with all that was in its log."""
    with closing(sqlite3.connect(folder / "collection.sqlite")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder / "collection.sqlite"


def wreck(folder: Path, what: str) -> None:
    """Damage a collection: its database's head or pages, all of it, or its snapshot."""
    database = checkpoint(folder)
    if what == "head":
        damage(database, 0, 100)
    elif what == "middle":
        damage(database, 3 * 4096, database.stat().st_size - 3 * 4096)
    elif what == "cut":
        with database.open("r+b") as file:
            file.truncate(database.stat().st_size // 2)
    elif what in ("one page", "empty"):
        with database.open("r+b") as file:
            file.truncate(4096 if what == "one page" else 0)
    elif what == "missing":
        database.unlink()
    elif what == "second page":
        damage(database, 4096, 4096)
    else:
        (snapshot,) = (folder / "snapshots").glob("*.index")
        damage(snapshot, snapshot.stat().st_size // 2, 50)


def collection(*arguments: str, folder: Path) -> str:
    """What a `cbir collection` command prints in this process."""
    done = CliRunner().invoke(app, ["collection", *arguments, "--collection", str(folder)])
    assert done.exit_code == 0, done.output
    return done.stdout


def verify(folder: Path) -> str:
    """What `cbir collection verify` says of a damaged collection."""
    done = CliRunner().invoke(app, ["collection", "verify", "--collection", str(folder)])
    assert done.exit_code == 1
    return done.output + (str(done.exception) if isinstance(done.exception, CbirError) else "")


@contextmanager
def searching(folder: Path) -> Iterator[httpx.Client]:
    """The service's API in this process."""
    transport = httpx.WSGITransport(app=create_app([folder], settings.load()))
    with httpx.Client(transport=transport, base_url="http://localhost") as client:
        yield client


def check_searches_in_copy(client: httpx.Client, ids: list[str], pictures: list[Path]) -> None:
    ready = client.get("/readyz").json()
    assert ready["images"] == COUNT - 6
    assert any(word in ready["warning"] for word in ("damaged", "empty", "missing"))
    assert "collection restore" in ready["warning"]
    assert "last good copy" in ready["warning"]
    sent = client.post("/v1/search?k=3", files={"image": pictures[-1].read_bytes()})
    assert len(sent.json()["results"]) == 3
    assert client.get(f"/v1/images/{ids[0]}").status_code == 200


@pytest.mark.parametrize("what", ["head", "second page", "middle", "cut", "one page", "empty", "missing"])
def test_damaged_database(writable: Path, ids: list[str], pictures: list[Path], what: str) -> None:
    wreck(writable, what)
    said = verify(writable)
    assert "the database" in said
    assert "cbir collection restore" in said
    assert "Error" not in said, "no name of a Python class"
    searched = CliRunner().invoke(app, ["search", str(pictures[0]), "--collection", str(writable)])
    assert "cbir collection restore" in str(searched.exception)
    with searching(writable) as client:
        check_searches_in_copy(client, ids, pictures)


def test_the_service_says_that_it_searches_in_the_copy(
    writable: Path, ids: list[str], pictures: list[Path]
) -> None:
    wreck(writable, "middle")
    done = subprocess.run(
        [*CBIR, "collection", "verify", "--collection", str(writable)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    with serving(writable) as running:
        with httpx.Client(base_url=running.address, timeout=30) as client:
            check_searches_in_copy(client, ids, pictures)
        _, log = running.stop()
    assert "last good copy" in log


def test_damaged_snapshot_is_named_and_mended(writable: Path) -> None:
    wreck(writable, "snapshot")
    assert "compact" in verify(writable)
    collection("compact", folder=writable)
    collection("verify", folder=writable)


def test_both_damaged_is_a_reason_not_to_start(writable: Path) -> None:
    wreck(writable, "head")
    damage(writable / NAME / "collection.sqlite", 0, 100)
    done = subprocess.run(
        [*CBIR, "serve", "--collection", str(writable), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "collection restore" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_damaged_while_serving(writable: Path, ids: list[str]) -> None:
    with searching(writable) as client:
        assert client.get("/readyz").status_code == 200
        database = checkpoint(writable)
        damage(database, 0, database.stat().st_size)
        answer = client.get(f"/v1/images/{ids[0]}")
        if answer.status_code != 200:  # what SQLite has in memory may still answer
            problem(answer, 503)


def test_snapshot_cut_short_while_serving(writable: Path, pictures: list[Path]) -> None:
    """Reading the mapped file ends the worker; the next one does without the file, and does not end too."""
    with serving(writable) as running:
        (snapshot,) = (writable / "snapshots").glob("*.index")
        with snapshot.open("r+b") as file:
            file.truncate(100)
        search = f"{running.address}/v1/search?k=3&rerank=none"
        answered = 0
        for _ in range(40):
            try:
                sent = httpx.post(search, files={"image": pictures[-1].read_bytes()}, timeout=20)
            except httpx.HTTPError:
                time.sleep(0.25)
                continue
            assert sent.status_code == 200
            assert len(sent.json()["results"]) == 3
            answered += 1
            if answered == 5:
                break
        assert answered == 5
        assert "snapshot" in httpx.get(f"{running.address}/readyz").json()["warning"]
    collection("compact", folder=writable)
    collection("verify", folder=writable)


def test_nothing_is_written_beside_a_damaged_collection(writable: Path) -> None:
    from cbir.store.upkeep.restore import open_or_fallback

    wreck(writable, "middle")
    with (
        open_or_fallback(writable) as copy,
        pytest.raises(CollectionDamaged, match="last good copy"),
        copy.writer(),
    ):
        raise AssertionError("no writer should have been given out")


def test_restored_from_the_last_good_copy(writable: Path, tmp_path: Path) -> None:
    wreck(writable, "cut")
    restored = Path(shutil.copytree(writable / NAME, tmp_path / "restored"))
    collection("verify", folder=restored)
    assert json.loads(collection("info", "--format", "json", folder=restored))["images"] == 30


def test_what_was_deleted_does_not_come_back_with_the_copy(writable: Path, ids: list[str]) -> None:
    collection("delete", "--yes", ids[0], folder=writable)
    wreck(writable, "head")
    with searching(writable) as client:
        assert client.get("/readyz").json()["images"] == COUNT - 7
        problem(client.get(f"/v1/images/{ids[0]}"), 404)


def test_an_erased_patient_is_in_no_copy(writable: Path) -> None:
    with Collection(writable) as opened:
        key = next(record.patient_key for _, record in opened.iterate() if record.patient_key)
    collection("erase-patient", "--yes", "patient-0", folder=writable)
    assert (writable / NAME / "collection.sqlite").is_file()
    kept = b"".join(path.read_bytes() for path in writable.rglob("*") if path.is_file())
    assert key.encode() not in kept
