"""`cbir worker` beside `cbir serve`: the service accepts jobs, and workers run them."""

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
from cbir.store import profile as profiles
from service.state.database import StateDatabase
from service.state.job_history import load_jobs
from tests.service.conftest import CBIR, refusal, serving
from tests.service.test_api_jobs import noise

COUNT = 900
PATIENCE_SECONDS = 180


@contextmanager
def working(collection: Path | str) -> Iterator[subprocess.Popen[str]]:
    program = [*CBIR, "worker", "--collection", str(collection)]
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
    noise(tmp_path / "archive", COUNT)
    folder = tmp_path / "knees"
    Collection.create(folder, profiles.get("tamura")).close()
    monkeypatch.setenv("CBIR_STATE_FOLDER", str(state))
    monkeypatch.setenv("CBIR_INDEX_ROOTS", str(tmp_path / "archive"))
    request = {"folder": str(tmp_path / "archive"), "processes": 1}
    with (
        serving(folder, CBIR_JOB_WORKERS="0") as served,
        httpx.Client(base_url=served.address, timeout=60) as client,
    ):
        job = client.post("/v1/jobs", json=request).json()
        assert "cbir worker" in job["waits_for"]
        address = f"/v1/jobs/{job['job']}"
        with working(folder) as first:
            until(lambda: client.get(address).json()["done"] > 20)
            assert client.get(address).json()["worker"].split(":")[1] == str(first.pid)
            first.send_signal(signal.SIGTERM)
            out, err = first.communicate(timeout=60)
            assert (first.returncode, err) == (0, ""), out
        stopped = client.get(address).json()
        assert (stopped["state"], stopped["attempts"]) == ("waiting", 0)
        assert 0 < client.get("/v1/collection").json()["images"] < COUNT
        with working(folder):
            until(lambda: client.get(address).json()["state"] == "done")
        assert client.get("/v1/collection").json()["images"] == COUNT
        assert client.get(address).json()["summary"]["already"] > 0


@pytest.mark.e2e
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_service_that_ends_hands_its_job_back(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise(tmp_path / "archive", COUNT)
    folder = tmp_path / "knees"
    Collection.create(folder, profiles.get("tamura")).close()
    monkeypatch.setenv("CBIR_STATE_FOLDER", str(state))
    monkeypatch.setenv("CBIR_INDEX_ROOTS", str(tmp_path / "archive"))
    request = {"folder": str(tmp_path / "archive"), "processes": 1}
    name, done = None, 0
    for number in (signal.SIGINT, signal.SIGTERM):
        with serving(folder) as served, httpx.Client(base_url=served.address, timeout=60) as client:
            name = name or client.post("/v1/jobs", json=request).json()["job"]
            until(lambda: client.get(f"/v1/jobs/{name}").json()["done"] > done + 20)  # noqa: B023
            served.process.send_signal(number)
            assert served.process.wait(60) == 0
        (row,) = load_jobs(StateDatabase(state))
        assert (row.state, row.attempts) == ("waiting", 0), number
        done = row.done


def test_what_a_worker_refuses(tmp_path: Path, indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "missing" in refusal("worker", "--collection", tmp_path / "missing")
    monkeypatch.setenv("CBIR_STATE_DATABASE", "postgresql+psycopg://cbir@127.0.0.1:1/hospital")
    assert "state_database" in refusal("worker", "--collection", indexed)
