"""What is different in PostgreSQL: several writers and machines, a server that may be down, revisions of tables."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import make_url, text

from cbir.errors import CollectionBusy, DatabaseUnavailable, InvalidInput, NotFound
from cbir.gallery import knn
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.base.collection_folder import writer_lock
from cbir.store.limited_collection import LimitedCollection
from cbir.store.postgresql import postgresql_database, postgresql_schema
from cbir.store.postgresql.postgresql_address import PASSWORDS, database_address, files_folder, find_password
from cbir.store.postgresql.postgresql_database import PostgresqlDatabase
from cbir.store.records.filter_conditions import parse_filters
from cbir.store.upkeep.backup import back_up_collection
from cbir.store.upkeep.verify import verify_collection
from cbir.store.views import snapshot_build
from tests.cbir.store.conftest import entry
from tests.postgresql_server import PostgresqlServer

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]


@pytest.fixture
def collection(address: str) -> Iterator[Collection]:
    with Collection.create(files_folder(address), profiles.get("tamura")) as created:
        yield created


def patch_idle() -> Any:
    """Let connections be tried before use, as after some time."""
    return patch.object(postgresql_database, "IDLE_SECONDS", -1.0)


def start_writer(address: str, first: int, last: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.cbir.store.postgresql_writer", address, str(first), str(last)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_processes_write_at_the_same_time(address: str, collection: Collection) -> None:
    processes = [start_writer(address, first, first + 15) for first in (0, 15)]
    seen: list[int] = []
    while any(process.poll() is None for process in processes):
        ids = collection.view().gallery.ids.tolist()
        assert ids[: len(seen)] == seen  # new numbers come after those that were visible
        seen = ids
    stored = [line.split() for process in processes for line in process.communicate()[0].splitlines()]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(int(number) for _, number in stored) == list(range(1, 31))
    assert collection.view().gallery.ids.tolist() == list(range(1, 31))
    hashes = collection.content_hashes()
    assert all(hashes[int(number)] == entry(int(given))[0].content_hash for given, number in stored)


def test_a_killed_writer_loses_nothing_that_it_reported(address: str, collection: Collection) -> None:
    process = start_writer(address, 0, 10_000)
    assert process.stdout
    reported = [process.stdout.readline() for _ in range(20)]
    process.kill()
    reported += process.communicate()[0].splitlines()
    there = set(collection.content_hashes().values())
    complete = [line.split() for line in reported if len(line.split()) == 2]
    assert {entry(int(given))[0].content_hash for given, _ in complete} <= there
    with collection.writer() as writer:  # nobody holds its lock
        assert len(writer.add([entry(20_000)]).ids) == 1
    assert verify_collection(collection) == []


def test_a_killed_server_loses_nothing_that_was_reported(
    postgresql: PostgresqlServer, collection: Collection
) -> None:
    reported: list[str] = []

    def add_until(stop: int) -> None:
        with collection.writer() as writer:
            for number in range(stop - 10, stop):
                reported.extend(writer.add([entry(number)]).ids)

    add_until(10)
    view = collection.view()
    postgresql.kill()
    try:
        for call in (
            collection.view,
            collection.history,
            lambda: collection.record("x"),
            lambda: add_until(20),
        ):
            with pytest.raises(DatabaseUnavailable) as caught:
                call()
            assert "\n" not in str(caught.value)
            assert "cannot be used" in str(caught.value)
    finally:
        postgresql.start()
    assert collection.view() is view  # read again with a new connection
    add_until(20)
    assert set(collection.image_ids().values()) == set(reported)
    assert verify_collection(collection) == []


@pytest.mark.usefixtures("large_snapshots")
def test_another_machine_drops_what_is_deleted_and_erased(
    collection: Collection, elsewhere: Collection
) -> None:
    with collection.writer() as writer:
        ids = writer.add([entry(number, f"p{number % 4}") for number in range(40)]).ids
        writer.finish()
    assert elsewhere.snapshot_is_due()
    assert elsewhere.build_due_snapshot()
    assert not elsewhere.build_due_snapshot()
    before = {path.name for path in (elsewhere.folder / "snapshots").iterdir()}
    with collection.writer() as writer:
        writer.delete(ids[:1])
        assert len(elsewhere.view()) == 39
        writer.erase_patient(["p1"])
    assert len(elsewhere.view()) == 29
    assert elsewhere.view().statistics.fitted_on == 40  # of its own snapshot, until it has another
    assert elsewhere.build_due_snapshot()
    assert len(elsewhere.view()) == 29
    assert elsewhere.view().statistics.fitted_on == 29
    assert elsewhere.statistics_fingerprint() == collection.statistics_fingerprint()
    assert not before & {path.name for path in (elsewhere.folder / "snapshots").iterdir()}
    np.testing.assert_array_equal(elsewhere.view().gallery.blocks[0], collection.view().gallery.blocks[0])


@pytest.mark.usefixtures("large_snapshots")
def test_the_snapshot_before_is_kept_for_those_who_read_it(collection: Collection) -> None:
    files = []
    for start in (0, 20, 40):
        with collection.writer() as writer:
            writer.add([entry(number, f"p{number % 4}") for number in range(start, start + 20)])
            writer.finish()
        files.append({path.name for path in (collection.folder / "snapshots").glob("*.index")})
    assert [len(names) for names in files] == [1, 2, 2]
    assert files[0] < files[1]
    assert not files[0] & files[2]
    with collection.writer() as writer:
        writer.erase_patient(["p1"])
    (path,) = (collection.folder / "snapshots").glob("*.index")
    assert path.name not in files[2]


def test_statistics_fitted_before_an_erasure_are_not_stored(
    collection: Collection, elsewhere: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collection.writer() as writer:
        writer.add([entry(number, f"p{number % 4}") for number in range(40)])
    find_neighbours = knn.find_neighbours

    def erase_meanwhile(*arguments: object) -> object:
        monkeypatch.undo()
        with elsewhere.writer() as writer:
            writer.erase_patient(["p1"])
        return find_neighbours(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(snapshot_build.knn, "find_neighbours", erase_meanwhile)
    with collection.writer() as writer:
        writer.finish()
    statistics = collection.statistics()
    assert statistics
    assert statistics.fitted_on == 30
    assert not collection.snapshot_is_due()


def test_only_what_writes_files_waits_for_the_files(collection: Collection) -> None:
    with writer_lock(collection.folder), collection.writer() as writer:
        writer.add([entry(number) for number in range(5)])
        with pytest.raises(CollectionBusy, match="another process"):
            writer.compact()
        assert not collection.build_due_snapshot()


def test_a_machine_needs_the_key(address: str, collection: Collection, tmp_path: Path) -> None:
    key = collection.folder / "patient.key"
    stored = key.read_text()
    key.unlink()
    with pytest.raises(InvalidInput, match=r"is not on this machine: copy patient\.key"):
        Collection(collection.folder)
    key.write_text("00" * 32)
    with pytest.raises(InvalidInput, match="is not the key of"):
        Collection(collection.folder)
    key.write_text(stored)
    Collection(collection.folder).close()
    with pytest.raises(InvalidInput, match="already holds a collection"):
        Collection.create(collection.folder, profiles.get("tamura"))
    database_file = collection.folder / "database.json"
    database_file.write_text(database_file.read_text().replace('"collection_id": "', '"collection_id": "0'))
    with pytest.raises(InvalidInput, match="has the files of another collection"):
        Collection(collection.folder)


def test_a_missing_collection_is_named_by_its_address(address: str) -> None:
    folder = files_folder(address.replace("//postgres@", "//postgres:secret@"))
    with pytest.raises(NotFound, match="there is no collection in 'postgresql") as caught:
        Collection(folder)
    assert f"--collection {database_address(folder)!r}` creates one" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_text_that_postgresql_cannot_store(collection: Collection) -> None:
    record, vector = entry(1, labels={"a": "a\0b"})
    with collection.writer() as writer, pytest.raises(InvalidInput):
        writer.add([(record, vector)])
    assert len(collection) == 0


def test_backups_are_of_postgresql_itself(collection: Collection, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"see docs/postgresql\.md"):
        back_up_collection(collection, tmp_path / "backup")


def test_revisions_end_in_the_tables(collection: Collection) -> None:
    with collection._engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, postgresql_schema.tables) == []
        script = ScriptDirectory.from_config(postgresql_schema.alembic_config(connection))
        assert script.get_current_head() == postgresql_schema.HEAD


def test_tables_of_other_programs_beside_the_collection_are_left_alone(
    postgresql: PostgresqlServer, address: str
) -> None:
    database = PostgresqlDatabase(address)
    with database.engine.begin() as connection:
        connection.execute(text("CREATE TABLE public.alembic_version (version_num TEXT)"))
        connection.execute(text("INSERT INTO public.alembic_version VALUES ('of another program')"))
    try:
        with Collection.create(files_folder(address), profiles.get("tamura")) as created:
            assert len(created) == 0
    finally:
        with database.engine.begin() as connection:
            names = connection.scalars(text("SELECT version_num FROM public.alembic_version")).all()
            connection.execute(text("DROP TABLE public.alembic_version"))
        database.dispose()
    assert names == ["of another program"]


def test_a_name_may_be_a_word_of_sql(postgresql: PostgresqlServer, address: str) -> None:
    folder = files_folder(f"{address.rpartition('=')[0]}=order")
    try:
        with Collection.create(folder, profiles.get("tamura")) as created, created.writer() as writer:
            writer.add([entry(number) for number in range(5)])
            writer.finish()
            writer.compact()
            assert len(created.view()) == 5
            assert len(LimitedCollection(created, parse_filters(["a=1"]))) == 0
    finally:
        postgresql.drop_schemas(['="order"'])


def test_a_refused_row_is_told_without_its_values(collection: Collection) -> None:
    with collection.writer() as writer:
        writer.add([entry(1)])
    row = text("INSERT INTO labels (key, value, number) VALUES ('patient', 'Jane Doe', 987654321)")
    with pytest.raises(DatabaseUnavailable) as caught, collection._engine.begin() as connection:
        connection.execute(row)
    assert "Jane" not in str(caught.value)
    assert "987654321" not in str(caught.value)


def test_passwords_are_of_one_user(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORDS, "{}")
    urls = [address.replace("//postgres@", f"//{user}:{user}-secret@") for user in ("one", "two")]
    for url in urls:
        files_folder(url)
    assert [find_password(make_url(url)) for url in urls] == ["one-secret", "two-secret"]


def test_a_restarted_server_is_noticed(postgresql: PostgresqlServer, collection: Collection) -> None:
    record, vector = entry(1)
    with collection.writer() as writer:
        writer.add([(record, vector)])
    ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    with PostgresqlDatabase(f"{postgresql.url}&collection=other").engine.connect() as connection:
        connection.execute(text(f"{ended} AND application_name = 'cbir'"))
    with patch_idle():
        assert len(collection) == 1


def test_tables_of_an_earlier_revision_are_upgraded(
    collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collection.writer() as writer:
        writer.add([entry(1)])
    folder = tmp_path / "migrations"
    shutil.copytree(postgresql_schema.FOLDER, folder)
    (folder / "versions" / "0002_next.py").write_text(
        'from alembic import op\nrevision = "0002"\ndown_revision = "0001"\n\n\n'
        'def upgrade():\n    op.execute("ALTER TABLE images ADD COLUMN next TEXT")\n'
    )
    with monkeypatch.context() as patch:
        patch.setattr(postgresql_schema, "FOLDER", folder)
        patch.setattr(postgresql_schema, "HEAD", "0002")
        with Collection(collection.folder) as upgraded:
            assert len(upgraded) == 1
            with upgraded._engine.connect() as connection:
                assert connection.scalar(text("SELECT next FROM images")) is None
    with pytest.raises(InvalidInput, match="a newer version of cbir"):
        Collection(collection.folder)


def test_a_user_without_rights_is_told(
    postgresql: PostgresqlServer, address: str, collection: Collection
) -> None:
    owner = PostgresqlDatabase(address)
    with owner.begin() as connection:
        connection.execute(text("CREATE ROLE reader LOGIN"))
    try:
        folder = files_folder(address.replace("//postgres@", "//reader@"))
        with pytest.raises(DatabaseUnavailable, match="permission denied"):
            Collection(folder)
        with owner.begin() as connection:
            connection.execute(text(f"GRANT USAGE ON SCHEMA {owner.schema} TO reader"))
            connection.execute(text(f"GRANT SELECT ON ALL TABLES IN SCHEMA {owner.schema} TO reader"))
        with Collection(folder) as opened:
            assert len(opened.view()) == 0
            with opened.writer() as writer, pytest.raises(DatabaseUnavailable, match="permission denied"):
                writer.add([entry(1)])
    finally:
        with owner.begin() as connection:
            connection.execute(text("DROP OWNED BY reader"))
            connection.execute(text("DROP ROLE reader"))
        owner.dispose()
