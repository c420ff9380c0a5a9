"""Errors that are not about one request's contents."""

import logging
import re
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from cbir import settings
from cbir.store.base import schema
from cbir.store.records.patient_key import read_secret
from cbir.system.access_rights import Scope
from service.app import create_app
from service.collections.app_state import EXTENSION, AppState
from service.http.concurrency import ConcurrencyLimit
from service.http.problems import TooManyRequests
from tests.rights import obeying_rights, without_rights
from tests.service.conftest import problem, stored_tokens


def test_unknown_address(client: FlaskClient) -> None:
    problem(client.get("/v2/search"), 404)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("GET", "/v1/search", "POST"), ("DELETE", "/", "GET"), ("POST", "/v1/images/x", "GET")],
)
def test_other_methods(client: FlaskClient, method: str, path: str, allowed: str) -> None:
    answer = client.open(path, method=method)
    problem(answer, 405)
    assert allowed in answer.headers["Allow"]


def test_unexpected_error_tells_nothing(app: Flask, caplog: pytest.LogCaptureFixture) -> None:
    @app.get("/broken")
    def broken() -> str:
        raise ValueError("the name of Jane Doe")

    answer = app.test_client().get("/broken")
    problem(answer, 500)
    assert "Jane" not in answer.text
    assert "ValueError" not in answer.text
    assert "ValueError" in caplog.text
    assert "test_problems.py" in caplog.text
    assert "Jane" not in caplog.text


@pytest.mark.parametrize("name", ["", schema.DATABASE, schema.SECRET, "map.npz"])
def test_files_that_may_not_be_read_are_not_called_damaged(
    writable: Path, pictures: list[Path], name: str
) -> None:
    (writable / "map.npz").touch()
    client = create_app(writable, settings.load()).test_client()
    address = {"": "/readyz", schema.DATABASE: "/readyz", "map.npz": "/v1/map"}.get(name, "/v1/images")
    method = "POST" if name == schema.SECRET else "GET"
    picture = {"data": pictures[-1].read_bytes(), "content_type": "image/png"} if method == "POST" else {}
    with without_rights(writable / name):
        answer = obeying_rights(lambda: client.open(address, method=method, **picture))
    problem(answer, 503)
    assert answer.json["type"].endswith("#access-denied")
    assert re.search(f"the user .* may not (read|enter) .*/{name or writable.name}; ", answer.json["detail"])
    assert obeying_rights(lambda: client.get("/readyz")).status_code == 200


def test_only_administrators_see_which_file_may_not_be_read(writable: Path, tmp_path: Path) -> None:
    _, token = stored_tokens(tmp_path / "state").create([Scope.search])
    active = settings.load(state_folder=tmp_path / "state", require_tokens=True)
    client = create_app(writable, active).test_client()
    header = {"Authorization": f"Bearer {token}"}
    with without_rights(writable / schema.DATABASE):
        answer = obeying_rights(lambda: client.get("/v1/collection", headers=header))
    problem(answer, 503)
    assert str(writable) not in answer.text
    assert "the log of the service says to which" in answer.json["detail"]


def test_no_more_files_can_be_opened(app: Flask, indexed: Path) -> None:
    @app.get("/file")
    def open_file() -> str:
        return str(len((indexed / schema.DATABASE).read_bytes()))

    @app.get("/database")
    def open_database() -> str:
        with schema.connect(indexed).connect():
            return ""

    @app.get("/key")
    def read_key() -> str:
        return str(len(read_secret(indexed)))

    client = app.test_client()
    assert client.get("/database").status_code == 200
    for path in ("/file", "/database", "/key"):
        with no_more_files():
            answer = client.get(path)
        assert "more files" in problem(answer, 503)
        assert int(answer.headers["Retry-After"]) >= 1


def test_a_database_that_is_gone_is_not_called_a_lack_of_files(writable: Path) -> None:
    app = create_app(writable, settings.load())

    @app.get("/database")
    def open_database() -> str:
        with schema.connect(writable).connect():
            return ""

    client = app.test_client()
    assert client.get("/database").status_code == 200
    shutil.rmtree(writable)
    answer = client.get("/database")
    assert "cannot be read" in problem(answer, 503)
    assert answer.json["type"].endswith("#collection-damaged")
    with no_more_files():
        assert "more files" in problem(client.get("/database"), 503)


@contextmanager
def no_more_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_one_request_too_many(indexed: Path, ids: list[str]) -> None:
    app = create_app(indexed, settings.load(threads=1, queue=1))
    state: AppState = app.extensions[EXTENSION]
    client = app.test_client()
    with state.concurrency.admit(), state.concurrency.admit():
        for refused in (
            client.post("/v1/search", json={"image_id": ids[0]}),
            client.post("/v1/render", data=b"x", content_type="image/png"),
        ):
            assert "2 requests" in problem(refused, 429)
            assert int(refused.headers["Retry-After"]) >= 1
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 200
    assert client.post("/v1/search", json={"image_id": ids[0]}).status_code == 200


def test_refused_requests_give_their_place_back(indexed: Path, ids: list[str]) -> None:
    client = create_app(indexed, settings.load(threads=1, queue=0)).test_client()
    for _ in range(5):
        problem(client.post("/v1/search", data=b"text", content_type="image/png"), 422)
        problem(client.post("/v1/search", data=b"text", content_type="text/plain"), 415)
    assert client.post("/v1/search", json={"image_id": ids[0]}).status_code == 200


def test_gate_counts() -> None:
    gate = ConcurrencyLimit(threads=1, queue=1)
    with gate.admit(), gate.admit(), pytest.raises(TooManyRequests), gate.admit():
        pass
    with gate.admit(), gate.slot():
        pass


def test_no_collection(tmp_path: Path) -> None:
    client = create_app(tmp_path / "none", settings.load()).test_client()
    for answer in (
        client.get("/readyz"),
        client.post("/v1/search", json={"image_id": "x"}),
        client.get("/v1/images/x"),
        client.get("/v1/images/x/thumbnail"),
    ):
        problem(answer, 503)
        assert "Retry-After" in answer.headers
    assert client.get("/healthz").status_code == 200
    page = client.get("/")
    assert page.status_code == 503
    assert "cannot be opened" in page.text


def test_database_that_is_none(writable: Path) -> None:
    shutil.rmtree(writable / "last-good")  # which would stand in for it
    for file in writable.glob("collection.sqlite*"):
        file.unlink()
    (writable / "collection.sqlite").write_bytes(b"not a database, but long enough to be taken for one" * 100)
    problem(create_app(writable, settings.load()).test_client().get("/readyz"), 503)


def test_database_damaged_while_it_is_open(writable: Path, caplog: pytest.LogCaptureFixture) -> None:
    client = create_app(writable, settings.load()).test_client()
    assert client.get("/readyz").status_code == 200
    for file in writable.glob("collection.sqlite*"):
        with file.open("r+b") as opened:
            opened.write(b"\xff" * file.stat().st_size)
    with caplog.at_level(logging.ERROR):
        answer = client.post("/v1/search", json={"image_id": "x"})
    problem(answer, 503)
