"""A PostgreSQL server that hangs: its processes are stopped, and neither answer nor end connections."""

import os
import signal
import subprocess
import time

import pytest
from sqlalchemy import text

from cbir import settings
from cbir.errors import DatabaseUnavailable
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.postgresql import postgresql_database
from cbir.store.postgresql.postgresql_address import files_folder
from service.state.database import open_state
from service.state.schema import StateUnavailable
from tests.cbir.store.conftest import entry

pytestmark = pytest.mark.slow


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setenv("CBIR_DATABASE_SECONDS", "0.5")
    monkeypatch.setitem(postgresql_database.CONNECTING, "connect_timeout", 2)  # the least that libpq takes


def processes(server):
    first = server._process.pid
    children = subprocess.run(["pgrep", "-P", str(first)], capture_output=True, text=True).stdout.split()
    return [first, *map(int, children)]


def test_requests_fail_and_go_on_when_it_answers_again(address, postgresql, quick, monkeypatch):
    monkeypatch.setenv("CBIR_STATE_DATABASE", postgresql.new_schema())
    state = open_state(settings.load())
    state.check()
    with Collection.create(files_folder(address), profiles.get("tamura")) as collection:
        with collection.writer() as writer:
            writer.add([entry(1)])
        stopped = processes(postgresql)
        try:
            for process in stopped:
                os.kill(process, signal.SIGSTOP)
            started = time.monotonic()
            with pytest.raises(DatabaseUnavailable, match="timeout expired; start the server"):
                collection.generation()
            with pytest.raises(StateUnavailable, match="timeout expired"):
                state.check()
            assert time.monotonic() - started < 60
        finally:
            for process in stopped:
                os.kill(process, signal.SIGCONT)
        assert collection.generation() == 1
        with collection.writer() as writer:
            assert writer.add([entry(2)]).ids
        time.sleep(max(0.0, state._down_until - time.monotonic()))
        state.check()


def test_a_long_statement_of_a_server_that_answers_goes_on(address, quick):
    with (
        Collection.create(files_folder(address), profiles.get("tamura")) as collection,
        collection.postgresql().connect_once() as connection,
    ):
        assert connection.scalar(text("SELECT 7 FROM pg_sleep(2)")) == 7


def test_a_server_that_refuses_further_connections_is_not_taken_for_one_that_hangs(
    address, quick, postgresql
):
    with Collection.create(files_folder(address), profiles.get("tamura")) as collection:
        database = collection.postgresql()
        with database.connect_once() as connection:
            raw = connection.connection.driver_connection
            probes = []

            def refused():
                probes.append(1)
                raise postgresql_refusal()

            raw._again = refused
            assert connection.scalar(text("SELECT 7 FROM pg_sleep(1.5)")) == 7
            assert probes


def postgresql_refusal():
    import psycopg

    return psycopg.OperationalError("FATAL: sorry, too many clients already")
