"""Files of a collection that may not be read: not damaged, not repaired, and named with a remedy."""

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from cbir.api.commands.manage_collection import _open_repaired
from cbir.errors import AccessDenied, find_denied
from cbir.store import Collection
from cbir.store.base.collection_folder import require_readable
from cbir.store.records import originals
from cbir.store.upkeep.backup import back_up_collection
from cbir.store.upkeep.repair import repair_folder, repair_rows
from cbir.store.upkeep.restore import open_or_fallback, restore_backup
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.conftest import MakeEntries
from tests.rights import obeying_rights, without_rights

NAMES = (
    "",
    "collection.sqlite",
    "patient.key",
    "snapshots",
    "snapshots/*.index",
    "last-good",
    "last-good/SHA256SUMS",
    "last-good/collection.sqlite",
    "last-good/patient.key",
    "originals",
    "originals/*",
    "vector_index",
)


@pytest.fixture
def folder(collection: Collection, entries: MakeEntries) -> Path:
    with collection.writer() as writer:
        writer.add(entries(0, 30))
        writer.compact()
    originals.store_original(collection.folder, b"a file as it was sent")
    (collection.folder / "vector_index").mkdir()
    collection.close()
    return collection.folder


def content(folder: Path) -> dict[str, str]:
    """The hashes of all files but the lock."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != "writer.lock"]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def verify(folder: Path) -> object:
    with Collection(folder) as opened:
        return verify_collection(opened)


def repair(folder: Path) -> None:
    opened, _ = _open_repaired(folder, repair=True)
    with opened, opened.writer():
        repair_rows(opened)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", [verify, repair, repair_folder])
def test_nothing_is_said_or_changed_where_a_file_may_not_be_read(
    folder: Path, name: str, command: Callable[[Path], object]
) -> None:
    (path,) = folder.glob(name) if name else [folder]
    before = content(folder)
    with without_rights(path), pytest.raises(AccessDenied) as caught:
        obeying_rights(lambda: command(folder))
    assert re.search(f"may not (enter|read) {re.escape(str(folder.resolve()))}", str(caught.value))
    assert f"/{path.name}; " in str(caught.value)
    assert "damaged" not in str(caught.value)
    assert content(folder) == before


@pytest.mark.parametrize("name", ["last-good", "last-good/SHA256SUMS", "snapshots/*.index"])
def test_a_snapshot_is_not_replaced_by_one_that_could_not_be_compared(folder: Path, name: str) -> None:
    (path,) = folder.glob(name)
    before = content(folder)

    def compact() -> None:
        with Collection(folder) as opened, opened.writer() as writer:
            writer.compact()

    with without_rights(path), pytest.raises(AccessDenied):
        obeying_rights(compact)
    assert content(folder).keys() == before.keys()


def test_searches_go_on_without_a_snapshot_and_say_why(folder: Path) -> None:
    (path,) = folder.glob("snapshots/*.index")

    def search() -> tuple[int, str | None]:
        with open_or_fallback(folder) as opened:
            return len(opened.view()), opened.snapshot_problem

    with without_rights(path):
        count, problem = obeying_rights(search)
    assert count == 30
    assert f"may not read {path.resolve()}" in (problem or "")


def test_the_last_good_copy_stands_for_damage_alone(folder: Path) -> None:
    with without_rights(folder / "collection.sqlite"), pytest.raises(AccessDenied):
        obeying_rights(lambda: open_or_fallback(folder))


@pytest.mark.parametrize("name", ["collection.sqlite", "patient.key", "SHA256SUMS", "originals"])
def test_a_backup_that_may_not_be_read_is_not_called_damaged(folder: Path, tmp_path: Path, name: str) -> None:
    backup = tmp_path / "backup"
    with Collection(folder) as opened:
        back_up_collection(opened, backup)
    with without_rights(backup / name), pytest.raises(AccessDenied, match=name):
        obeying_rights(lambda: restore_backup(backup, tmp_path / "restored"))
    assert not list(tmp_path.glob("restored*"))


def test_a_closed_folder_on_the_way_is_the_one_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    file = tmp_path / "outer" / "inner" / "file"
    file.touch()
    (tmp_path / "link").symlink_to(file)
    with without_rights(tmp_path / "outer", 0o600):
        for path in (file, tmp_path / "link"):
            denied = str(obeying_rights(partial(find_denied, path)))
            assert f"may not enter {tmp_path.resolve() / 'outer'}; `chmod u+rwx " in denied
    with without_rights(file, 0o400):
        assert obeying_rights(lambda: find_denied(file)) is None
        assert "may not write" in str(obeying_rights(lambda: find_denied(file, writing=True)))
    assert find_denied(tmp_path / "missing") is None


def test_what_file_systems_keep_in_a_folder_is_passed_over(folder: Path) -> None:
    (folder / "lost+found").mkdir()
    with without_rights(folder / "lost+found"):
        obeying_rights(lambda: require_readable(folder))


def test_what_a_writer_removes_meanwhile_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "passing").mkdir()
    log = folder / "collection.sqlite-passing"
    log.write_bytes(b"pages")
    scan = os.scandir

    def removing(path: str = ".") -> Iterator[os.DirEntry[str]]:
        if os.path.basename(path) == "passing":
            os.rmdir(path)
        entries = scan(path)
        log.unlink(missing_ok=True)
        return entries

    with Collection(folder) as opened:
        monkeypatch.setattr(os, "scandir", removing)
        assert opened.info()["bytes_on_disk"] > 0
        (folder / "passing").mkdir(exist_ok=True)
        log.write_bytes(b"pages")
        require_readable(folder)


@pytest.mark.skipif(os.name == "nt", reason="Windows has other links")
def test_a_file_that_goes_away_meanwhile_is_no_error(folder: Path) -> None:
    (folder / "collection.sqlite-wal").symlink_to("gone")
    require_readable(folder)
