"""Indexing jobs over HTTP, as the processes that they are."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select

from cbir import settings
from cbir.store import Collection
from cbir.store.base import profile as profiles
from service.app import create_app
from service.collections.app_state import EXTENSION
from service.jobs import job_queue
from service.jobs.stored_jobs import forget_files, jobs
from service.state.database import open_state
from tests.held_files import held_files, noise
from tests.service.conftest import problem

JOBS = "/v1/jobs"
PATIENCE_SECONDS = 300


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """The folder below which jobs may index."""
    (tmp_path / "archive").mkdir()
    return tmp_path / "archive"


@pytest.fixture
def app(tmp_path: Path, archive: Path) -> Flask:
    Collection.create(tmp_path / "collection", profiles.get("tamura")).close()
    return create_app(tmp_path / "collection", settings.load(index_roots=(str(archive),)))


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


def until(client: FlaskClient, name: str, *states: str) -> dict[str, Any]:
    """The job once it is in one of the states."""
    return once(client, name, lambda detail: detail["state"] in states)


def once(client: FlaskClient, name: str, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The job once it meets a condition."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        detail: dict[str, Any] = client.get(f"{JOBS}/{name}").json
        if condition(detail):
            return detail
        time.sleep(0.1)
    raise AssertionError(detail)


@pytest.mark.slow
def test_a_folder_is_indexed(client: FlaskClient, archive: Path) -> None:
    folder = noise(archive / "a", 20)
    (folder / "bad.png").write_bytes(b"no image")
    (archive / "labels.csv").write_text("path,label\n" + "".join(f"a/{n:03d}.png,x\n" for n in range(20)))
    sent = client.post(JOBS, json={"folder": str(folder), "labels": str(archive / "labels.csv")})
    assert sent.status_code == 202, sent.text
    assert sent.headers["Location"] == f"{JOBS}/{sent.json['job']}"
    ended = until(client, sent.json["job"], "done", "failed")
    assert ended["state"] == "done", ended
    assert (ended["done"], ended["total"], ended["refused"]) == (21, 21, 1)
    assert ended["summary"]["indexed"] == 20
    assert [item["path"] for item in ended["refused_files"]] == ["bad.png"]
    assert str(archive) not in ended["refused_files"][0]["reason"]
    assert client.get("/v1/collection").json["labels"] == {"label": 20}
    again = client.post(JOBS, json={"folder": str(folder), "processes": 1}).json["job"]
    assert until(client, again, "done", "failed")["summary"]["already"] == 20
    assert [job["job"] for job in client.get(JOBS).json["items"]] == [again, sent.json["job"]]


@pytest.mark.slow
def test_progress_and_cancel(client: FlaskClient, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = archive / "many"
    count = held_files(folder, monkeypatch)
    first = client.post(JOBS, json={"folder": str(folder), "processes": 1}).json["job"]
    second = client.post(JOBS, json={"folder": str(folder)}).json["job"]
    running = once(client, first, lambda job: job["done"] and job["total"])
    picture = (folder / "000.png").read_bytes()
    problem(client.post("/v1/images", data=picture, content_type="image/png"), 503)
    assert running["state"] == "running"
    assert 0 < running["done"] < running["total"] == count
    assert client.get(f"{JOBS}/{second}").json["state"] == "waiting"
    assert client.post(f"{JOBS}/{second}/cancel").json["state"] == "cancelled"
    assert client.post(f"{JOBS}/{first}/cancel").status_code == 202
    ended = until(client, first, "cancelled", "done", "failed")
    assert ended["state"] == "cancelled"
    assert ended["summary"]["interrupted"]
    assert client.get("/v1/collection").json["images"] == ended["summary"]["indexed"]
    problem(client.post(f"{JOBS}/{first}/cancel"), 409)
    added = client.post("/v1/images", data=(folder / "019.png").read_bytes(), content_type="image/png")
    assert added.status_code in (200, 201)


def test_paths_outside_the_roots(client: FlaskClient, archive: Path, tmp_path: Path) -> None:
    outside = noise(tmp_path / "outside", 1)
    (archive / "link").symlink_to(outside)
    (tmp_path / "archive-2").mkdir()
    for path in (
        outside,
        archive / "link",
        archive / ".." / "outside",
        tmp_path / "archive-2",
        tmp_path / "none-such",
        "/etc",
        "/",
    ):
        detail = problem(client.post(JOBS, json={"folder": str(path)}), 403)
        assert "outside" not in detail
    problem(client.post(JOBS, json={"folder": str(archive), "labels": "/etc/passwd"}), 403)
    problem(client.post(JOBS, json={"folder": str(archive / "none-such")}), 404)
    assert client.get(JOBS).json["items"] == []


@pytest.mark.slow
def test_links_do_not_lead_out_of_the_roots(client: FlaskClient, archive: Path, tmp_path: Path) -> None:
    """Neither links in the folder nor links in a linked folder, to folders or to files; those within it do."""
    outside = noise(tmp_path / "outside", 7)
    (outside / "notes.txt").write_text("no picture")
    folder = noise(archive / "a", 3)
    noise(archive / "b", 2)
    (folder / "sister").symlink_to(archive / "b")
    (folder / "out").symlink_to(outside)
    (folder / "one.png").symlink_to(outside / "001.png")
    (folder / "text").symlink_to(outside / "notes.txt")
    (folder / "gone").symlink_to(outside / "none-such")
    (archive / "b" / "further").symlink_to("../../outside")
    (archive / "labels.csv").write_text("path,label\na/out/002.png,x\na/000.png,x\n../outside/003.png,x\n")
    values = {"folder": str(folder), "labels": str(archive / "labels.csv")}
    ended = until(client, client.post(JOBS, json=values).json["job"], "done", "failed")
    assert ended["state"] == "done", ended
    assert ended["summary"]["indexed"] == 5
    reported = {item["path"]: item["reason"] for item in ended["refused_files"]}
    assert set(reported) == {"out", "one.png", "text", "gone", "../b/further"}
    assert all("index_roots" in reason and str(tmp_path) not in reason for reason in reported.values())
    assert (ended["done"], ended["total"]) == (10, 10)
    assert client.get("/v1/collection").json["images"] == 5


@pytest.mark.slow
def test_a_link_that_changes_while_its_job_waits(
    client: FlaskClient, app: Flask, archive: Path, tmp_path: Path
) -> None:
    folder, outside = noise(archive / "a", 1), noise(tmp_path / "outside", 7)
    (tmp_path / "labels.csv").write_text("path,label\na/000.png,x\n")
    shutil.copy(tmp_path / "labels.csv", archive)
    handle, collection = app.extensions[EXTENSION].handle(), client.get("/v1/collection").json
    for values, swapped in (({"folder": str(folder)}, folder), ({"labels": f"{archive}/labels.csv"}, None)):
        with handle.indexing(handle.folder):  # so that the job waits
            job = client.post(JOBS, json={"folder": str(archive)} | values).json["job"]
            if swapped:
                swapped.rename(archive / "moved")
                swapped.symlink_to(outside)
            else:
                (archive / "labels.csv").unlink()
                (archive / "labels.csv").symlink_to(tmp_path / "labels.csv")
        ended = until(client, job, "done", "failed")
        assert ended["state"] == "failed", ended
        assert "may be indexed" in ended["error"]
    after = client.get("/v1/collection").json
    assert after | {"bytes_on_disk": 0} == collection | {
        "bytes_on_disk": 0
    }  # a job gives the folder an identity


def test_no_roots_no_jobs(indexed: Path, pictures: list[Path]) -> None:
    client = create_app(indexed, settings.load()).test_client()
    problem(client.post(JOBS, json={"folder": str(pictures[0].parent)}), 403)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"folder": "relative"}, 422),
        ({"folder": "/a\0b"}, 422),
        ({"folder": 1}, 422),
        ({"folder": "ROOT", "processes": 0}, 422),
        ({"folder": "ROOT", "processes": 10_000}, 422),
        ({"folder": "ROOT", "collection": "other"}, 404),
    ],
)
def test_jobs_that_cannot_be(client: FlaskClient, archive: Path, body: dict[str, Any], status: int) -> None:
    values = {key: str(archive) if value == "ROOT" else value for key, value in body.items()}
    problem(client.post(JOBS, json=values), status)


def test_requests_that_are_none(client: FlaskClient) -> None:
    problem(client.post(JOBS, data=b"{", content_type="application/json"), 400)
    problem(client.post(JOBS, data=b"{}", content_type="text/plain"), 415)
    problem(client.get(f"{JOBS}/none-such"), 404)
    problem(client.post(f"{JOBS}/none-such/cancel"), 404)
    problem(client.delete(JOBS), 405)


def test_one_job_too_many(
    client: FlaskClient, app: Flask, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_queue, "MAX_WAITING", 1)
    handle = app.extensions[EXTENSION].handle()
    with handle.indexing(handle.folder):  # so that jobs wait
        answers = [client.post(JOBS, json={"folder": str(archive)}) for _ in range(2)]
        assert answers[0].status_code == 202
        problem(answers[1], 429)
        assert client.post(f"{JOBS}/{answers[0].json['job']}/cancel").json["state"] == "cancelled"


@pytest.mark.slow
def test_a_job_that_fails_says_why(client: FlaskClient, archive: Path) -> None:
    noise(archive, 1)
    (archive / "labels.csv").write_text("no such columns\n1\n")
    values = {"folder": str(archive), "labels": str(archive / "labels.csv")}
    ended = until(client, client.post(JOBS, json=values).json["job"], "done", "failed")
    assert ended["state"] == "failed"
    assert "labels.csv" in ended["error"]


@pytest.mark.usefixtures("each_database")
def test_jobs_are_seen_and_cancelled_at_every_service(tmp_path: Path, archive: Path, state: Path) -> None:
    Collection.create(tmp_path / "collection", profiles.get("tamura")).close()
    active = settings.load(state_folder=state, index_roots=(str(archive),), job_workers=0)
    one, other = (create_app(tmp_path / "collection", active).test_client() for _ in range(2))
    name = one.post(JOBS, json={"folder": str(archive)}).json["job"]
    (listed,) = other.get(JOBS).json["items"]
    assert (listed["job"], listed["state"], listed["attempts"]) == (name, "waiting", 0)
    assert "cbir admin worker" in listed["waits_for"]
    assert other.post(f"{JOBS}/{name}/cancel").json["state"] == "cancelled"
    job = one.get(f"{JOBS}/{name}").json
    assert job["state"] == "cancelled"
    assert job["ended"]
    assert "has ended: cancelled" in problem(one.post(f"{JOBS}/{name}/cancel"), 409)
    assert other.post(f"{JOBS}/{name}/retry").json["state"] == "waiting"
    assert "has not failed: waiting" in problem(one.post(f"{JOBS}/{name}/retry"), 409)


def test_jobs_of_other_collections_stay_hidden(tmp_path: Path, archive: Path, state: Path) -> None:
    for name in ("collection", "another"):
        Collection.create(tmp_path / name, profiles.get("tamura")).close()
    active = settings.load(state_folder=state, index_roots=(str(archive),), job_workers=0)
    client = create_app(tmp_path / "collection", active).test_client()
    name = client.post(JOBS, json={"folder": str(archive)}).json["job"]
    client = create_app(tmp_path / "another", active).test_client()
    assert client.get(JOBS).json == {"items": []}
    problem(client.get(f"{JOBS}/{name}"), 404)
    problem(client.post(f"{JOBS}/{name}/retry"), 404)


@pytest.mark.slow
def test_names_of_files_are_kept_for_a_week(
    app: Flask, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = app.test_client()
    folder = noise(archive / "Doe_Jane", 3)
    (folder / "Doe_Jane.png").write_bytes(b"no image")
    (archive / "Doe_Jane.csv").write_text("nothing,here\n")
    names = []
    for more in ({}, {"labels": str(archive / "Doe_Jane.csv")}):
        name = client.post(JOBS, json={"folder": str(folder)} | more).json["job"]
        until(client, name, "done", "failed")
        names.append(name)
    restarted = create_app(tmp_path / "collection", settings.load()).test_client()
    failed, done = restarted.get(JOBS).json["items"]
    assert [failed["job"], done["job"]] == names[::-1]
    assert done["refused_files"][0]["path"] == "Doe_Jane.png"
    assert done["summary"]["examples"]
    assert "Doe_Jane.csv" in failed["error"]
    database = open_state(settings.load())
    forget_files(database)
    assert restarted.get(JOBS).json["items"] == [failed, done]
    with database.writing() as connection:
        connection.exec_driver_sql("UPDATE job_files SET keep_until = keep_until - 7 * 24 * 3600 * 1000")
    with database.reading() as connection:  # where errors stay longer
        assert "Doe" not in str(connection.execute(select(jobs)).all())
    forget_files(database)
    assert b"Doe" not in b"".join(path.read_bytes() for path in settings.load().state_folder.iterdir())
    unnamed = [item["job"] for item in restarted.get(JOBS).json["items"] if not item["refused_files"]]
    assert unnamed == names[::-1]
    assert "start a new job" in problem(restarted.post(f"{JOBS}/{names[1]}/retry"), 409)


@pytest.mark.slow
def test_a_failed_job_is_tried_again(client: FlaskClient, archive: Path) -> None:
    noise(archive / "a", 3)
    (archive / "labels.csv").write_text("no such columns\n1\n")
    values = {"folder": str(archive / "a"), "labels": str(archive / "labels.csv")}
    name = client.post(JOBS, json=values).json["job"]
    until(client, name, "done", "failed")
    (archive / "labels.csv").write_text("path,label\n" + "".join(f"a/{n:03d}.png,x\n" for n in range(3)))
    again = client.post(f"{JOBS}/{name}/retry").json
    assert (again["state"], again["error"], again["ended"]) == ("waiting", None, None)
    ended = until(client, name, "done", "failed")
    assert (ended["state"], ended["summary"]["indexed"]) == ("done", 3)
    problem(client.post(f"{JOBS}/{name}/retry"), 409)


def test_without_the_state_database_no_job_is_accepted(
    indexed: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CBIR_STATE_DATABASE", "postgresql+psycopg://cbir@127.0.0.1:1/hospital")
    client = create_app(indexed, settings.load(index_roots=(str(archive),))).test_client()
    problem(client.post(JOBS, json={"folder": str(archive)}), 503)
    assert client.get(JOBS).json == {"items": []}
    assert "cbir_jobs{" not in client.get("/metrics").text
