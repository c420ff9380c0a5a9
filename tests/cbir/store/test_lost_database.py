"""A database that is missing, empty or without tables is damage of the collection, not a folder without one."""

import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cbir.api.commands.manage_collection import app as collection_commands
from cbir.errors import CollectionDamaged, NotFound
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.base.collection_folder import writer_lock
from cbir.store.postgresql.postgresql_address import files_folder
from cbir.store.records import originals
from cbir.store.safety.database_files import FILES, UNFINISHED
from cbir.store.upkeep.restore import open_or_fallback, restore_backup
from indexer.index_request import open_collection
from tests.cbir.store.conftest import MakeEntries
from tests.postgresql_server import PostgresqlServer


def lose(folder: Path, how: str) -> None:
    """Lose the database of a collection."""
    database = folder / "collection.sqlite"
    database.unlink()
    if how == "empty":
        database.touch()
    if how == "without tables":
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")


def content(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder, without the database, its log and the lock."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    named = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    return {
        name: data
        for name, data in named.items()
        if name != "writer.lock" and not name.startswith("collection.sqlite") and "-shm" not in name
    }


@pytest.fixture
def folder(collection: Collection, entries: MakeEntries) -> Path:
    """A collection with a snapshot, a last good copy and an original."""
    with collection.writer() as writer:
        writer.add(entries(0, 20))
        writer.compact()
    originals.store_original(collection.folder, b"a file")
    collection.close()
    return collection.folder


@pytest.mark.parametrize("how", ["missing", "empty", "without tables"])
def test_nothing_is_created_over_a_lost_database(folder: Path, how: str) -> None:
    lose(folder, how)
    before = content(folder)
    assert Collection.exists(folder)
    for attempt in (
        lambda: Collection.create(folder, profiles.get("tamura")),
        lambda: open_collection(folder, "tamura"),  # as indexing and receiving do
        lambda: Collection(folder),
    ):
        with pytest.raises(CollectionDamaged, match=f"is {how}.*, but .*last-good.*collection restore"):
            attempt()
    for arguments in (["verify"], ["verify", "--repair"], ["compact"], ["info"]):
        result = CliRunner().invoke(collection_commands, [*arguments, "--collection", str(folder)])
        assert isinstance(result.exception, CollectionDamaged), arguments
    assert content(folder) == before


@pytest.mark.parametrize("how", ["missing", "empty", "without tables"])
def test_the_command_that_is_named_restores_the_images(folder: Path, how: str) -> None:
    lose(folder, how)
    with pytest.raises(CollectionDamaged) as damage:
        Collection(folder)
    move, restore = str(damage.value).split("`")[1].split(" && ")
    _, source, target = shlex.split(move)
    shutil.move(source, target)
    *_, backup, restored = shlex.split(restore)
    restore_backup(Path(backup), Path(restored))
    assert len(Collection(folder)) == 20


@pytest.mark.parametrize("how", ["missing", "empty", "without tables"])
def test_the_last_good_copy_is_searched(folder: Path, how: str) -> None:
    lose(folder, how)
    with open_or_fallback(folder) as opened:
        assert len(opened.view().gallery) == 20
        assert how in str(opened.fallback_for)
        with pytest.raises(CollectionDamaged):
            opened.writer().__enter__()


@pytest.mark.parametrize("name", [name for name in FILES if name != "collection.sqlite"])
def test_any_file_of_a_collection_prevents_a_new_one(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir() if "." not in name.removesuffix(".partial") else (tmp_path / name).touch()
    with pytest.raises(CollectionDamaged, match=name):
        Collection.create(tmp_path, profiles.get("tamura"))
    assert [path.name for path in tmp_path.iterdir() if path.name != "writer.lock"] == [name]


@pytest.mark.parametrize("name", ["last-good", "originals", "snapshots/1.index"])
def test_an_unfinished_creation_with_images_is_a_lost_collection(tmp_path: Path, name: str) -> None:
    (tmp_path / UNFINISHED).touch()
    (tmp_path / name).mkdir(parents=True)
    with pytest.raises(CollectionDamaged, match=name.split("/")[0]):
        Collection.create(tmp_path, profiles.get("tamura"))


def test_hidden_files_prevent_nothing(tmp_path: Path) -> None:
    (tmp_path / ".hidden").touch()
    with pytest.raises(NotFound):
        Collection(tmp_path)
    Collection.create(tmp_path, profiles.get("tamura")).close()
    assert not (tmp_path / UNFINISHED).exists()


def test_a_creation_is_finished_with_the_key_that_it_has(tmp_path: Path, monkeypatch) -> None:
    from cbir.store.writing import creation

    with monkeypatch.context() as patch:
        patch.setattr(creation, "_create_database", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Collection.create(tmp_path, profiles.get("tamura"))
    key = (tmp_path / "patient.key").read_text()
    with Collection.create(tmp_path, profiles.get("tamura")) as created:
        assert created.secret.hex() == key


def test_a_log_beside_an_empty_database_is_kept(folder: Path) -> None:
    lose(folder, "empty")
    log = folder / "collection.sqlite-wal"
    log.write_bytes(b"pages")
    with pytest.raises(CollectionDamaged, match="sqlite-wal"):
        Collection(folder)
    assert log.read_bytes() == b"pages"


@pytest.mark.parametrize("state", ["one byte", "another program's"])
def test_a_file_that_is_no_database_of_a_collection_stays_as_it_is(folder: Path, state: str) -> None:
    lose(folder, "missing")
    database = folder / "collection.sqlite"
    if state == "one byte":
        database.write_bytes(b"S")
    else:
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("CREATE TABLE others (value)")
    before = database.read_bytes()
    with pytest.raises(CollectionDamaged, match=r"is cut|without tables of a collection"):
        Collection(folder)
    assert database.read_bytes() == before


def test_a_database_without_a_format_is_named_with_the_command_that_restores_it(folder: Path) -> None:
    lose(folder, "missing")
    with closing(sqlite3.connect(folder / "collection.sqlite")) as connection:
        connection.execute("CREATE TABLE meta (key TEXT, value TEXT)")
    with pytest.raises(CollectionDamaged, match=r"its format; .*collection restore"):
        Collection(folder)


def test_the_folder_is_moved_to_a_name_that_is_free(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lose(folder, "missing")
    folder.with_name(f"{folder.name}-damaged").mkdir()
    with pytest.raises(CollectionDamaged, match=rf"mv {folder} {folder}-damaged2 && "):
        Collection(folder)
    monkeypatch.chdir(folder)
    with pytest.raises(CollectionDamaged, match=rf"mv {folder} {folder}-damaged2 && "):
        Collection(Path())


def test_a_copy_whose_replacement_was_interrupted_is_named_and_restored(folder: Path, tmp_path: Path) -> None:
    lose(folder, "missing")
    (folder / "last-good").rename(folder / "last-good.previous")
    with pytest.raises(CollectionDamaged, match=r"collection restore .*last-good\.previous"):
        Collection(folder)
    restore_backup(folder / "last-good.previous", tmp_path / "restored")
    assert len(Collection(tmp_path / "restored")) == 20


def test_a_reader_leaves_the_replacement_of_a_copy_to_the_writer_at_work(folder: Path) -> None:
    lose(folder, "missing")
    (folder / "last-good").rename(folder / "last-good.previous")
    with writer_lock(folder), open_or_fallback(folder) as opened:
        assert len(opened) == 20
        assert (folder / "last-good.previous").exists()


@pytest.mark.slow
def test_tables_that_are_gone_from_postgresql_are_not_made_again(
    postgresql: PostgresqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: MakeEntries
) -> None:
    monkeypatch.setenv("CBIR_COLLECTION_FILES", str(tmp_path / "files"))
    address = postgresql.new_address()
    files = files_folder(address)
    with Collection.create(files, profiles.get("tamura")) as created, created.writer() as writer:
        writer.add(entries(0, 3))
    postgresql.drop_schemas([address])
    before = content(files)
    for attempt in (lambda: open_collection(files, "tamura"), lambda: Collection(files)):
        with pytest.raises(CollectionDamaged, match=r"are gone.*pg_restore"):
            attempt()
    with pytest.raises(CollectionDamaged, match="are gone"):
        Collection.create(files, profiles.get("tamura"))
    assert content(files) == before
