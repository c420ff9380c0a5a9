"""What a worker must have for a job: the collection, the same folder of it, and the folder to index below a root."""

import shutil
from pathlib import Path
from threading import Thread

import pytest

from cbir import settings
from cbir.store.collection_address import write_alias
from cbir.system.threads import cores
from indexer.index_request import IndexRequest
from service.jobs.job_claims import JobCandidate
from service.jobs.job_work import NAME, WorkerPlace, folder_place, has_many_writers, new_index_job
from service.jobs.stored_jobs import NewJob

OPTIONS = {"labels": None, "processes": None, "duplicates": False, "restore": True, "actor": "user mia"}


@pytest.fixture
def knees(tmp_path: Path) -> Path:
    (tmp_path / "knees").mkdir()
    return tmp_path / "knees"


def candidate(new: NewJob) -> JobCandidate:
    return JobCandidate(1, "a", new.kind, new.collection, new.place, new.lane, new.request, True)


def index_job(folder: Path, source: Path, **more: object) -> JobCandidate:
    return candidate(new_index_job(folder.stem, folder, OPTIONS | {"sources": [str(source)]} | more))


def test_a_folder_keeps_its_identity_and_a_copy_gets_another(knees: Path, tmp_path: Path) -> None:
    assert folder_place(knees) is None
    place = folder_place(knees, create=True)
    assert place
    assert folder_place(knees) == place == folder_place(knees, create=True)
    copy = Path(shutil.copytree(knees, tmp_path / "copy"))
    assert folder_place(copy) is None
    assert folder_place(copy, create=True) not in (None, place)
    assert folder_place(knees) == place
    for content in ("", "[]", "{}", '{"id": 1}', "\0"):
        (copy / NAME).write_text(content)
        assert folder_place(copy) is None


def test_services_that_start_at_once_agree_on_an_identity(knees: Path) -> None:
    threads = [Thread(target=folder_place, args=(knees,), kwargs={"create": True}) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert folder_place(knees)
    assert [path.name for path in knees.iterdir()] == [NAME]


def test_what_a_worker_lacks(knees: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    (tmp_path / "link").symlink_to(archive)
    active = settings.load(index_roots=(str(tmp_path / "link"),))
    job = index_job(knees, archive / "2024")
    assert WorkerPlace({"knees": knees}, active).obstacle(job) is None
    assert "collection knees" in (WorkerPlace({"hips": knees}, active).obstacle(job) or "")
    copy = Path(shutil.copytree(knees, tmp_path / "copy"))
    assert "same folder" in (WorkerPlace({"knees": copy}, active).obstacle(job) or "")
    for other in (tmp_path / "archive-2", tmp_path, archive / "..", Path("/")):
        reason = WorkerPlace({"knees": knees}, active).obstacle(index_job(knees, other.resolve()))
        assert "index_roots" in (reason or "")
        assert str(tmp_path) not in (reason or "")
    labels = index_job(knees, archive, labels="/etc/passwd")
    assert "index_roots" in (WorkerPlace({"knees": knees}, active).obstacle(labels) or "")
    unknown = WorkerPlace({"knees": knees}, active).obstacle(job._replace(kind="dream"))
    assert "job of kind dream" in (unknown or "")


@pytest.mark.parametrize(
    "changes",
    [
        {"ray": "auto"},  # of a newer version
        {"actor": None},
        {"processes": "2"},
        {"sources": []},
        {"sources": ["/archive", None]},
        {"folder_name": 7},
    ],
)
def test_a_request_of_another_version_is_left_to_its_workers(
    knees: Path, tmp_path: Path, changes: dict[str, object]
) -> None:
    place = WorkerPlace({"knees": knees}, settings.load(index_roots=(str(tmp_path),)))
    job = index_job(knees, tmp_path)
    assert place.obstacle(job) is None
    assert "version" in (place.obstacle(job._replace(request=job.request | changes)) or "")
    for name in job.request:
        less = {each: value for each, value in job.request.items() if each != name}
        assert "version" in (place.obstacle(job._replace(request=less)) or "")


def test_a_job_gets_the_settings_of_its_worker(knees: Path, tmp_path: Path) -> None:
    active = settings.load(index_roots=(str(tmp_path),), burned_in="refuse", index_decode_seconds=7)
    place = WorkerPlace({"knees": knees}, active)
    request = place.work(index_job(knees, tmp_path / "a", processes=10_000)).request
    assert isinstance(request, IndexRequest)
    assert (list(request.sources), request.collection) == ([tmp_path / "a"], knees)
    assert (request.jobs, request.decode_seconds, request.refuse_burned_in) == (cores(), 7, True)
    assert (request.actor, request.restore, request.within) == ("user mia", True, (tmp_path,))


def test_an_alias_leads_to_the_folder_of_the_request(knees: Path, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    alias = tmp_path / "current.alias"
    write_alias(alias, knees)
    job = candidate(
        new_index_job("current", knees, OPTIONS | {"sources": [str(tmp_path)], "folder_name": "../knees"})
    )
    write_alias(alias, tmp_path / "second")
    place = WorkerPlace({"current": alias}, settings.load(index_roots=(str(tmp_path),)))
    assert place.obstacle(job) is None
    assert place.work(job).request.collection == knees


def test_a_collection_in_postgresql_takes_jobs_of_any_worker_side_by_side(knees: Path) -> None:
    assert not has_many_writers(knees)
    assert index_job(knees, knees).lane
    (knees / "database.json").write_text("{}")
    assert has_many_writers(knees)
    job = index_job(knees, knees)
    assert (job.place, job.lane) == (None, None)
