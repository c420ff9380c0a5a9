"""A collection is its owner's, whatever the umask; a group gets in if the folder lets it."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.base.collection_folder import share_with_group
from cbir.store.records import originals
from cbir.store.upkeep.backup import back_up_collection
from cbir.store.upkeep.collection_copy import copy_collection, export_collection
from cbir.store.upkeep.restore import restore_backup
from tests.cbir.store.conftest import MakeEntries
from tests.rights import mode_of

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="Windows has other rights"),
    pytest.mark.usefixtures("large_snapshots"),
]


@pytest.fixture
def loose_umask() -> Iterator[None]:
    previous = os.umask(0)
    yield
    os.umask(previous)


def rights(folder: Path) -> dict[str, int]:
    """The rights of group and others, of a folder and everything in it, where there are any."""
    modes = {str(path): mode_of(path) & 0o077 for path in (folder, *folder.rglob("*"))}
    return {path: mode for path, mode in modes.items() if mode}


def use(folder: Path, entries: MakeEntries) -> None:
    """Do all that writes files, and look while the write-ahead log is there too."""
    with Collection.create(folder, profiles.get("tamura")) as collection:
        with collection.writer() as writer:
            ids = writer.add(entries(0, 20)).ids
            assert rights(folder) == {}
            writer.finish()
            originals.store_original(folder, b"a file as it was sent")
            writer.delete(ids[:2])
            writer.compact()
        assert len(collection.view()) == 18
        assert rights(folder) == {}
        back_up_collection(collection, folder.with_name("backup"))
        export_collection(collection, folder.with_name("export"))
    assert rights(folder) == {}
    assert rights(folder.with_name("backup")) == {}
    assert rights(folder.with_name("export")) == {}


def test_nobody_else_reads_a_collection(tmp_path: Path, entries: MakeEntries, loose_umask: None) -> None:
    use(tmp_path / "collection", entries)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give files away")
def test_what_root_makes_belongs_to_the_owner_of_the_folder(tmp_path: Path, entries: MakeEntries) -> None:
    """tests/cbir/system/test_ownership.py has what can be tested without root."""
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 4711, 4712)
    use(home / "collection", entries)
    with Collection(home / "collection") as collection:
        copy_collection(collection, home / "copy", lambda *_: None)
        (home / "collection" / "writer.lock").unlink()
        back_up_collection(collection, home / "backups" / "one")
        with collection.writer() as writer:
            writer.compact()
    restore_backup(home / "backups" / "one", home / "restored")
    owners = {path.relative_to(home): (path.stat().st_uid, path.stat().st_gid) for path in home.rglob("*")}
    roots = {path for path, owner in owners.items() if owner != (4711, 4712)}
    whole = (Path("backup"), Path("backups/one"), Path("restored"))  # may come from links of that user
    assert {path for path in roots if not any(path.is_relative_to(each) for each in whole)} == set()
    assert set(whole) <= roots


def test_a_folder_that_was_there_is_closed(tmp_path: Path, entries: MakeEntries, loose_umask: None) -> None:
    (tmp_path / "collection").mkdir(mode=0o777)
    use(tmp_path / "collection", entries)


def test_a_collection_that_others_can_read_gets_a_warning(
    collection: Collection, caplog: pytest.LogCaptureFixture
) -> None:
    collection.close()
    Collection(collection.folder).close()
    assert caplog.messages == []
    collection.folder.chmod(0o755)
    Collection(collection.folder).close()
    (message,) = caplog.messages
    assert f"chmod -R o= {collection.folder}" in message
    collection.folder.chmod(0o750)
    Collection(collection.folder).close()
    assert len(caplog.messages) == 1


def test_a_group_that_was_let_in_reads_new_files_too(
    collection: Collection, entries: MakeEntries, loose_umask: None
) -> None:
    for path in (collection.folder, *collection.folder.rglob("*")):
        path.chmod(0o770 if path.is_dir() else 0o660)
    with collection.writer() as writer:
        writer.add(entries(0, 20))
        writer.compact()
    for path in collection.folder.rglob("*"):
        expected = 0o770 if path.is_dir() else 0o660
        if path.name != "patient.key":
            assert stat.S_IMODE(path.stat().st_mode) == expected, path
    shutil.rmtree(collection.folder / "last-good")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can be another user")
def test_a_member_of_the_group_shares_what_others_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = 65534
    folder = tmp_path / "severity"
    folder.mkdir()
    for name in ("others", "own"):
        (folder / name).touch(0o600)
    os.chown(folder / "own", nobody, nobody)
    for path in (tmp_path, folder):
        os.chown(path, -1, nobody)
        path.chmod(0o770)
    monkeypatch.chdir(tmp_path)  # no way leads here for another user
    if not (child := os.fork()):
        os.setgroups([])
        os.setresgid(nobody, nobody, nobody)
        os.setresuid(nobody, nobody, nobody)
        try:
            share_with_group(Path("severity"))
        except OSError:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert stat.S_IMODE((folder / "own").stat().st_mode) == 0o660
    assert stat.S_IMODE((folder / "others").stat().st_mode) == 0o600
