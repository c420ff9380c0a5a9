"""`cbir admin worker` beside `cbir serve`: the service accepts jobs, and workers run them."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from cbir.store import Collection
from cbir.store.base import profile as profiles
from service.jobs.stored_jobs import load_jobs
from service.state.database import StateDatabase
from tests.held_files import held_files, release
from tests.postgresql_server import PostgresqlServer, missing_reason
from tests.service.conftest import CBIR, refusal, serving

PATIENCE_SECONDS = 180


@contextmanager
def working(collection: Path | str) -> Iterator[subprocess.Popen[str]]:
    program = [*CBIR, "admin", "worker", "--collection", str(collection)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline().startswith("Waiting for jobs")
            yield process
        finally:
            process.kill()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.e2e
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_job_moves_from_worker_to_worker_and_loses_nothing(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "archive"
    count = held_files(archive, monkeypatch)
    folder = tmp_path / "knees"
    Collection.create(folder, profiles.get("tamura")).close()
    monkeypatch.setenv("CBIR_STATE_FOLDER", str(state))
    monkeypatch.setenv("CBIR_INDEX_ROOTS", str(archive))
    request = {"folder": str(archive), "processes": 1}
    with (
        serving(folder, CBIR_JOB_WORKERS="0") as served,
        httpx.Client(base_url=served.address, timeout=60) as client,
    ):
        job = client.post("/v1/jobs", json=request).json()
        assert "cbir admin worker" in job["waits_for"]
        address = f"/v1/jobs/{job['job']}"
        with working(folder) as first:
            until(lambda: client.get(address).json()["done"] > 20)
            assert client.get(address).json()["worker"].split(":")[1] == str(first.pid)
            first.send_signal(signal.SIGTERM)
            out, err = first.communicate(timeout=300)
            assert (first.returncode, err) == (0, ""), out
        stopped = client.get(address).json()
        assert (stopped["state"], stopped["attempts"]) == ("waiting", 0)
        assert 0 < client.get("/v1/collection").json()["images"] < count
        release(archive)
        with working(folder):
            until(lambda: client.get(address).json()["state"] == "done")
        assert client.get("/v1/collection").json()["images"] == count
        assert client.get(address).json()["summary"]["already"] > 0


@pytest.mark.e2e
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_service_that_ends_hands_its_job_back(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "archive"
    count = held_files(archive, monkeypatch)
    folder = tmp_path / "knees"
    Collection.create(folder, profiles.get("tamura")).close()
    monkeypatch.setenv("CBIR_STATE_FOLDER", str(state))
    monkeypatch.setenv("CBIR_INDEX_ROOTS", str(archive))
    request = {"folder": str(archive), "processes": 1}
    name = None
    for number in (signal.SIGINT, signal.SIGTERM):
        with serving(folder) as served, httpx.Client(base_url=served.address, timeout=60) as client:
            name = name or client.post("/v1/jobs", json=request).json()["job"]
            until(lambda: client.get(f"/v1/jobs/{name}").json()["state"] == "running")  # noqa: B023
            until(lambda: client.get("/v1/collection").json()["images"] > 0)
            served.process.send_signal(number)
            assert served.process.wait(300) == 0
        (row,) = load_jobs(StateDatabase(state))
        assert (row.state, row.attempts) == ("waiting", 0), number
    with Collection(folder) as collection:
        assert 0 < len(collection) < count


@pytest.mark.slow
def test_what_a_worker_refuses(
    tmp_path: Path, indexed: Path, postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "missing" in refusal("admin", "worker", "--collection", tmp_path / "missing")
    monkeypatch.setenv(
        "CBIR_STATE_DATABASE", f"postgresql+psycopg://postgres@/nowhere?host={postgresql.folder}"
    )
    assert "state_database" in (said := refusal("admin", "worker", "--collection", indexed))
    assert "does not exist" in said


@pytest.mark.e2e
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("command", "begins"),
    [(("admin", "worker"), "Waiting for jobs"), (("serve", "--port", "0"), "The page:")],
)
def test_without_its_state_database_it_waits_and_begins_once_it_answers(
    indexed: Path, own_server: PostgresqlServer, command: tuple[str, ...], begins: str
) -> None:
    """And Ctrl-C ends it while it waits."""
    environment = os.environ | {"CBIR_STATE_DATABASE": own_server.new_schema()}
    own_server.kill()
    program = [*CBIR, *command, "--collection", str(indexed)]
    for is_interrupted in (True, False):
        with subprocess.Popen(
            program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as process:
            try:
                assert process.stderr
                assert process.stdout
                assert process.stderr.readline().startswith("waiting: state_database postgresql")
                if is_interrupted:
                    process.send_signal(signal.SIGINT)
                    assert process.wait(PATIENCE_SECONDS) == 130
                    assert process.stderr.read().splitlines() == ["cbir: interrupted"]
                else:
                    own_server.start()
                    assert process.stdout.readline().startswith(begins)
            finally:
                process.kill()


@pytest.fixture
def own_server() -> Iterator[PostgresqlServer]:
    """A PostgreSQL server that a test may kill."""
    if reason := missing_reason():
        pytest.skip(reason)
    server = PostgresqlServer()
    try:
        yield server
    finally:
        server.stop()
