"""A collection goes back to a moment by the steps of docs/postgresql.md: base backup, archived log, recovery."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from cbir.errors import DatabaseUnavailable
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.postgresql.postgresql_address import files_folder
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.conftest import entry
from tests.postgresql_server import PostgresqlServer, missing_reason

pytestmark = pytest.mark.slow

RECOVERY = """restore_command = 'cp {archive}/%f %p'
recovery_target_time = '{moment}'
recovery_target_action = 'promote'
"""


@pytest.fixture
def server() -> Iterator[PostgresqlServer]:
    """A server of its own, which archives its log into `archive` beside its data."""
    if reason := missing_reason():
        pytest.skip(reason)
    running = PostgresqlServer(
        archive_mode="on",
        archive_command="mkdir -p ../archive && test ! -f ../archive/%f && cp %p ../archive/%f",
    )
    try:
        yield running
    finally:
        running.stop()


def answer(server: PostgresqlServer, query: str) -> str:
    return run(server, "psql", "--tuples-only", "--no-align", "--command", query).strip()


def run(server: PostgresqlServer, program: str, *arguments: str) -> str:
    """Run a program of the server as its user; return what it prints."""
    command = [server.programs / program, "--host", server.folder, "--username", "postgres", *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=400, **server.as_user
    ).stdout


def recover(server: PostgresqlServer, moment: str) -> None:
    """Put the base backup in the place of the data of a killed server, and go on to a moment."""
    data, before = server.folder / "data", server.folder / "before"
    data.rename(before)
    (server.folder / "base").rename(data)
    shutil.copytree(before / "pg_wal", data / "pg_wal", dirs_exist_ok=True)  # what was not archived yet
    with (data / "postgresql.auto.conf").open("a") as file:
        file.write(RECOVERY.format(archive=server.folder / "archive", moment=moment))
    (data / "recovery.signal").touch()
    owner = before.stat()
    for path in data.rglob("*"):
        os.chown(path, owner.st_uid, owner.st_gid)
    server.start()
    end = time.monotonic() + 60
    while answer(server, "SELECT pg_is_in_recovery()") == "t":
        assert time.monotonic() < end, (server.folder / "log").read_text()[-2000:]
        time.sleep(0.05)


def ids_of(collection: Collection) -> set[str]:
    return set(collection.image_ids().values())


def drop_dead_connections(collection: Collection) -> None:
    """Use the connections of before the kill: one that was used less than a second ago is not tried first."""
    with suppress(DatabaseUnavailable):
        len(collection)


def test_a_moment_before_a_mistake(server: PostgresqlServer) -> None:
    with Collection.create(files_folder(server.new_address()), profiles.get("tamura")) as collection:
        with collection.writer() as writer:
            writer.add([entry(number) for number in range(20)])
            writer.finish()
        run(server, "pg_basebackup", "--pgdata", str(server.folder / "base"), "--checkpoint=fast")
        with collection.writer() as writer:
            writer.add([entry(number) for number in range(20, 30)])
            before = ids_of(collection)
            moment = answer(server, "SELECT clock_timestamp()")
            writer.delete(sorted(before)[:25])
            writer.compact()  # writes a snapshot of the later state
        assert len(ids_of(collection)) == 5
        server.kill()
        recover(server, moment)
        drop_dead_connections(collection)
        assert ids_of(collection) == before
        assert len(collection.view()) == 30, "the snapshot of the later state is not used"
        assert verify_collection(collection) == []
        with collection.writer() as writer:
            writer.add([entry(31)])
        assert len(collection.view()) == 31
