import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import Column, ForeignKey, Integer, Table, Text, func, insert, select
from sqlalchemy.exc import IntegrityError

from cbir import settings
from cbir.errors import StorageFull
from service.app import create_app
from service.state import schema
from service.state.access_rows import tokens
from service.state.database import StateDatabase, open_state
from service.state.schema import Migration, StateUnavailable
from service.state.sqlite_file import FILE, TABLES_MARK, TOKENS_LOCK
from tests.service.conftest import ONLY_FILE, problem
from tests.service.earlier_states import return_to_first_version

pytestmark = pytest.mark.usefixtures("each_database")


@pytest.fixture
def shelves() -> Iterator[Table]:
    """Tables of a feature."""
    table = Table("shelves", schema.tables, Column("shelf", Integer, primary_key=True), Column("name", Text))
    books = Table("books", schema.tables, Column("shelf", ForeignKey("shelves.shelf", ondelete="CASCADE")))
    yield table
    schema.tables.remove(books)
    schema.tables.remove(table)


def add(database: StateDatabase, table: Table, name: str) -> None:
    with database.writing() as connection:
        connection.execute(insert(table).values(name=name))


def count(database: StateDatabase, table: Table) -> int:
    with database.reading() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def test_rows_outlive_the_process(state: Path, shelves: Table) -> None:
    add(open_state(settings.load(state_folder=state)), shelves, "atlas")
    assert count(open_state(settings.load(state_folder=state)), shelves) == 1


@ONLY_FILE
def test_making_it_touches_no_disk(state: Path) -> None:
    open_state(settings.load(state_folder=state))
    assert not state.exists()


@ONLY_FILE
@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_files_are_private(state: Path, shelves: Table) -> None:
    database = open_state(settings.load(state_folder=state))
    add(database, shelves, "atlas")
    assert {path.stat().st_mode & 0o777 for path in state.iterdir()} == {0o600}
    assert state.stat().st_mode & 0o777 == 0o700


def test_error_in_a_transaction_leaves_nothing(state: Path, shelves: Table) -> None:
    database = open_state(settings.load(state_folder=state))

    def fail() -> None:
        with database.writing() as connection:
            connection.execute(insert(shelves).values(name="atlas"))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert count(database, shelves) == 0


def test_broken_reference_is_refused(state: Path, shelves: Table) -> None:
    books = schema.tables.tables["books"]
    with pytest.raises(IntegrityError), open_state(settings.load(state_folder=state)).writing() as connection:
        connection.execute(insert(books).values(shelf=1))


def test_transactions_of_threads_and_processes_follow_one_another(state: Path, shelves: Table) -> None:
    first, second = (
        open_state(settings.load(state_folder=state)),
        open_state(settings.load(state_folder=state)),
    )

    def read_and_write(database: StateDatabase) -> None:
        for _ in range(10):
            with database.writing() as connection:
                last = connection.execute(select(func.max(shelves.c.shelf))).scalar() or 0
                connection.execute(insert(shelves).values(shelf=last + 1))

    threads = [threading.Thread(target=read_and_write, args=(part,)) for part in (first, second, first)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count(first, shelves) == 30


def test_reader_sees_one_state(state: Path, shelves: Table) -> None:
    database = open_state(settings.load(state_folder=state))
    query = select(func.count()).select_from(shelves)
    with database.reading() as connection:
        assert connection.execute(query).scalar_one() == 0
        add(database, shelves, "atlas")
        assert connection.execute(query).scalar_one() == 0
    assert count(database, shelves) == 1


def test_table_of_a_new_feature_is_added(state: Path, shelves: Table) -> None:
    add(open_state(settings.load(state_folder=state)), shelves, "atlas")
    added = Table("maps", schema.tables, Column("map", Integer, primary_key=True))
    try:
        assert count(open_state(settings.load(state_folder=state)), added) == 0
    finally:
        schema.tables.remove(added)


def test_migration_runs_once(state: Path, shelves: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS", ())
    add(open_state(settings.load(state_folder=state)), shelves, "atlas")
    longer = Migration("shelves", "UPDATE shelves SET name = name || '!'")
    absent = Migration("nowhere", "DROP TABLE nowhere")
    monkeypatch.setattr(schema, "MIGRATIONS", (longer, absent))
    for _ in range(2):
        with open_state(settings.load(state_folder=state)).reading() as connection:
            assert connection.execute(select(shelves.c.name)).scalar_one() == "atlas!"
    monkeypatch.setattr(schema, "MIGRATIONS", (longer,))
    with pytest.raises(StateUnavailable, match="newer version of cbir"):
        count(open_state(settings.load(state_folder=state)), shelves)


def test_state_of_version_1_0_is_upgraded(each_database: str, state: Path) -> None:
    active = settings.load(state_folder=state)
    with open_state(active).writing() as connection:
        return_to_first_version(connection)
    upgraded = open_state(active)
    assert upgraded.problems() == []
    with upgraded.reading() as connection:
        assert connection.execute(select(tokens.c.made_by)).all() == []


@pytest.mark.parametrize("version", [0, schema.FIRST_VERSION - 1])
def test_state_of_a_version_before_1_0_is_refused(state: Path, version: int) -> None:
    active = settings.load(state_folder=state)
    with open_state(active).writing() as connection:
        connection.exec_driver_sql(f"UPDATE schema_version SET version = {version}")
    for _ in range(2):
        with pytest.raises(StateUnavailable, match=r"before 1\.0; let version 1\.0 upgrade it"):
            count(open_state(active), tokens)


def test_new_database_skips_migrations(state: Path, monkeypatch: pytest.MonkeyPatch, shelves: Table) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS", (Migration("shelves", "DROP TABLE shelves"),))
    assert count(open_state(settings.load(state_folder=state)), shelves) == 0


@ONLY_FILE
@pytest.mark.parametrize("content", [b"not a database" * 100, b""])
def test_damaged_or_empty_file(state: Path, shelves: Table, content: bytes) -> None:
    state.mkdir(mode=0o700)
    (state / FILE).write_bytes(content)
    (state / FILE).chmod(0o600)
    if content:
        with pytest.raises(
            StateUnavailable, match=r"state\.sqlite cannot be used: file is not a database; restore it"
        ):
            count(open_state(settings.load(state_folder=state)), shelves)
    else:
        assert count(open_state(settings.load(state_folder=state)), shelves) == 0


@ONLY_FILE
@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_file_that_others_could_change_is_refused(state: Path, shelves: Table) -> None:
    add(open_state(settings.load(state_folder=state)), shelves, "atlas")
    for path, mode, remedy in ((state / FILE, 0o604, "chmod 600"), (state, 0o707, "chmod 700")):
        before = path.stat().st_mode
        path.chmod(mode)
        with pytest.raises(StateUnavailable, match=remedy):
            count(open_state(settings.load(state_folder=state)), shelves)
        path.chmod(before)


@ONLY_FILE
@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give files away")
def test_root_gives_new_files_alone_to_the_owner_of_the_folder(state: Path, shelves: Table) -> None:
    state.mkdir(mode=0o700)
    os.chown(state, 1234, 1234)
    lock = state / TOKENS_LOCK
    lock.write_bytes(b"tokens\n")
    os.chown(lock, 4321, 4321)
    add(open_state(settings.load(state_folder=state)), shelves, "atlas")
    assert [(state / name).stat().st_uid for name in (FILE, TABLES_MARK, TOKENS_LOCK)] == [1234, 1234, 4321]
    os.chown(state / FILE, 4321, 4321)
    add(open_state(settings.load(state_folder=state)), shelves, "atlas")
    assert (state / FILE).stat().st_uid == 4321


@ONLY_FILE
def test_a_second_use_in_a_process_keeps_the_locks_of_the_first(state: Path, shelves: Table) -> None:
    active = settings.load(state_folder=state)
    first = open_state(active)
    add(first, shelves, "atlas")
    assert count(open_state(active), shelves) == 1  # as erasing a patient opens it
    read_and_close = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM shelves'); c.close()"
    )
    subprocess.run([sys.executable, "-c", read_and_close, state / FILE], check=True)
    assert (state / f"{FILE}-wal").exists()
    add(first, shelves, "novel")
    with closing(sqlite3.connect(state / FILE)) as connection:
        assert connection.execute("SELECT count(*) FROM shelves").fetchone() == (2,)


@ONLY_FILE
def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateUnavailable, match=r"state_folder .* cannot be written: Not a directory"):
        count(
            StateDatabase(tmp_path / "file" / "state"),
            schema.tables.tables["schema_version"],
        )


@ONLY_FILE
def test_full_disk(state: Path, shelves: Table) -> None:
    database = open_state(settings.load(state_folder=state))

    def fill() -> None:
        with database.writing() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1")
            connection.execute(insert(shelves), [{"name": "x" * 1000}] * 100)

    with pytest.raises(StorageFull, match="state is full"):
        fill()
    with closing(sqlite3.connect(state / FILE)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@ONLY_FILE
def test_service_answers_without_it(indexed: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    app: Flask = create_app(indexed, settings.load(state_folder=tmp_path / "file" / "state"))

    @app.get("/books")
    def _show() -> str:
        raise StateUnavailable("the file /secret/state.sqlite cannot be used")

    client = app.test_client()
    assert client.get("/v1/images").status_code == 200
    answer = client.get("/books")
    assert (
        problem(answer, 503) == "the file /secret/state.sqlite cannot be used"
    )  # every caller has all rights
    assert "state-unavailable" in answer.json["type"]  # type: ignore[index]


@ONLY_FILE
@pytest.mark.parametrize("how", ["missing", "empty"])
def test_a_lost_file_is_not_made_again(state: Path, shelves: Table, how: str) -> None:
    first = open_state(settings.load(state_folder=state))
    add(first, shelves, "atlas")
    for path in state.glob(f"{FILE}*"):
        if path.name != f"{FILE}.made":
            path.unlink()
    if how == "empty":
        (state / FILE).touch(mode=0o600)
    with pytest.raises(StateUnavailable, match=r"missing or empty; .* delete state\.sqlite\.made"):
        count(open_state(settings.load(state_folder=state)), shelves)
    assert not (state / FILE).exists() or not (state / FILE).stat().st_size
    (state / f"{FILE}.made").unlink()
    assert count(open_state(settings.load(state_folder=state)), shelves) == 0
