"""Backup and restore, as docs/operations.md says it."""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from cbir import settings
from cbir.errors import InvalidInput
from cbir.store import Collection
from cbir.store.records import originals
from cbir.store.upkeep.backup import back_up_collection
from cbir.store.upkeep.verify import verify_collection
from service.app import create_app
from tests.cbir.store.conftest import entry
from tests.service.conftest import COUNT, cbir, ids, indexed, pictures, writable

__all__ = ["ids", "indexed", "pictures", "writable"]  # fixtures of the service's tests, used here too

DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"


def commands(heading: str) -> str:
    """The first block of commands below a heading of the document."""
    section = DOCUMENT.read_text().split(f"## {heading}\n", 1)[1]
    block = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert block
    return block[1]


def shell(script: str, folder: Path) -> None:
    """Run commands in a folder, as the document has them, with `cbir` on the path."""
    binaries = Path(sys.executable).parent
    done = subprocess.run(
        ["sh", "-eu", "-c", script],
        cwd=folder,
        env={"PATH": f"{binaries}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def found(folder: Path, picture: Path) -> list[dict[str, Any]]:
    """What the service's API answers to a picture."""
    transport = httpx.WSGITransport(app=create_app([folder], settings.load()))
    with httpx.Client(transport=transport, base_url="http://localhost") as client:
        results = client.post("/v1/search?k=9", files={"image": picture.read_bytes()}).json()["results"]
    assert len(results) == 9
    return list(results)


def test_backup_and_restore(writable: Path, tmp_path: Path, pictures: list[Path]) -> None:
    place = tmp_path / "place"
    place.mkdir()
    shutil.copytree(writable, place / "collection")
    shell(commands("Backup"), place)
    before = found(place / "collection", pictures[-1])
    shutil.rmtree(place / "collection")
    shell(commands("Restore"), place)
    with Collection(place / "collection") as collection:
        assert verify_collection(collection) == []
        assert len(collection) == COUNT - 6
    after = found(place / "collection", pictures[-1])
    # The neighbourhood is worked out anew, in another order of additions.
    for hit in before + after:
        hit["score"] = pytest.approx(hit["score"], rel=1e-4)
    assert after == before
    # The key came along: a patient's images are still found by the identifier, and erased.
    erased = cbir(
        "collection",
        "erase-patient",
        "patient-0",
        "--yes",
        "--collection",
        place / "collection",
        "--format",
        "json",
    )
    assert json.loads(erased)["erased"] > 0


def test_a_backup_overwrites_nothing(writable: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with Collection(writable) as collection, pytest.raises(InvalidInput, match="there exists"):
        back_up_collection(collection, tmp_path / "there")


def test_originals_are_part_of_it(writable: Path, tmp_path: Path) -> None:
    originals.store_original(writable, b"a file as it was sent")
    with Collection(writable) as collection:
        assert back_up_collection(collection, tmp_path / "backup") > 0
    (kept,) = (tmp_path / "backup" / originals.FOLDER).iterdir()
    assert kept.read_bytes() == b"a file as it was sent"


def test_backup_while_images_come_in(tmp_path: Path) -> None:
    """The copy holds a moment between two additions, whole."""
    from cbir.store.base import profile as profiles

    place = tmp_path / "place"
    place.mkdir()
    stop = threading.Event()
    with Collection.create(place / "collection", profiles.get("tamura")) as collection:

        def work() -> None:
            with collection.writer() as writer:
                turn = 0
                while not stop.is_set():
                    writer.add([entry(n) for n in range(turn * 20, turn * 20 + 20)])
                    turn += 1
                    if turn % 10 == 0:
                        writer.compact()

        with collection.writer() as writer:
            writer.add([entry(n) for n in range(1_000_000, 1_000_020)])
            writer.finish()
        writing = threading.Thread(target=work)
        writing.start()
        try:
            for _ in range(2):
                shutil.rmtree(place / "backup", ignore_errors=True)
                shell(commands("Backup"), place)
                shutil.rmtree(place / "restored", ignore_errors=True)
                shutil.copytree(place / "backup", place / "restored")
                with Collection(place / "restored") as copy:
                    found = verify_collection(copy)
                    assert found == [] or all("snapshot" in problem for problem in found)
                    assert len(copy) % 20 == 0
        finally:
            stop.set()
            writing.join()
    assert sqlite3.sqlite_version_info >= (3, 27)  # VACUUM INTO
