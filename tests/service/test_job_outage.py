"""A job of `cbir admin worker` while PostgreSQL, with the collection and the state, is killed and started again."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cbir import settings
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.postgresql.postgresql_address import files_folder
from cbir.store.upkeep.verify import verify_collection
from service.app import create_app
from service.jobs.stored_jobs import ENDED, JobRow, load_jobs
from service.state.database import open_state
from service.state.schema import StateUnavailable
from tests.held_files import held_files, release
from tests.postgresql_server import PostgresqlServer, missing_reason
from tests.service.test_worker_command import until, working

pytestmark = pytest.mark.slow
OUTAGE_SECONDS = 3.0


@pytest.fixture
def server() -> Iterator[PostgresqlServer]:
    """A server of its own: it is killed."""
    if reason := missing_reason():
        pytest.skip(reason)
    running = PostgresqlServer()
    try:
        yield running
    finally:
        running.stop()


def the_job() -> JobRow | None:
    """The only job, None while the server is down."""
    try:
        (job,) = load_jobs(open_state(settings.load()))
    except StateUnavailable:
        return None
    return job


def has_done_more_than(count: int) -> bool:
    job = the_job()
    return job is not None and (job.done or 0) > count


def test_a_job_goes_on_after_two_outages_and_loses_and_repeats_nothing(
    server: PostgresqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "archive"
    count = held_files(archive, monkeypatch, 1400)
    monkeypatch.setenv("CBIR_COLLECTION_FILES", str(tmp_path / "files"))
    monkeypatch.setenv("CBIR_STATE_DATABASE", server.new_schema())
    monkeypatch.setenv("CBIR_INDEX_ROOTS", str(archive))
    address = server.new_address()
    folder = files_folder(address)
    collection = Collection.create(folder, profiles.get("tamura"))
    client = create_app(folder, settings.load(job_workers=0)).test_client()
    request = {"folder": str(archive), "processes": 1}
    assert client.post("/v1/jobs", json=request).status_code == 202
    with working(address) as worker:
        for least in (20, 300):
            until(partial(has_done_more_than, least))
            server.kill()
            time.sleep(OUTAGE_SECONDS)
            server.start()
            assert worker.poll() is None
            assert 0 < len(collection) < count
        release(archive)
        until(lambda: (job := the_job()) and job.state in ENDED)
    job = the_job()
    assert job
    assert job.state == "done", job.error
    assert len(collection) == count
    sources = [record.source for _, record in collection.iterate()]
    assert len(set(sources)) == count
    assert sum(change.images for change in collection.history() if change.what == "added") == count
    assert verify_collection(collection) == []
    collection.close()
