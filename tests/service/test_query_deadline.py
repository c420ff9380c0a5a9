"""Searches that take too long are cancelled and say so; those of clients that left are cancelled silently."""

import itertools
import socket
import threading
import time
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from werkzeug.exceptions import RequestTimeout

from cbir import settings
from cbir.errors import QueryCancelled
from cbir.system.threads import with_checkpoints
from service.app import create_app
from service.collections.app_state import EXTENSION
from service.http.timeouts import query_deadline
from tests.service.conftest import problem


@pytest.fixture
def hurried(indexed: Path) -> FlaskClient:
    """A client of a service that cancels every search."""
    return create_app(indexed, settings.load(query_seconds=1e-6)).test_client()


def test_cancelled_searches(hurried: FlaskClient, ids: list[str], pictures: list[Path]) -> None:
    limit = hurried.application.extensions[EXTENSION].concurrency
    for _ in range(20):  # more often than there are threads
        answer = hurried.post("/v1/search", json={"image_id": ids[0]})
        assert "query_seconds" in problem(answer, 504)
        assert answer.json is not None
        assert answer.json["type"] == "/docs/errors#query-timeout"
        assert "Retry-After" not in answer.headers
    files = {"image": pictures[0].open("rb")}
    problem(hurried.post("/v1/search", data=files), 504)
    files["image"].close()
    assert (limit.working, limit.waiting) == (0, 0)


@pytest.mark.parametrize(
    "body",
    [
        {"rerank": "none"},
        {"rerank": "eprf", "where": ["label=odd"]},
        {"examples": ["1"], "feedback": [{"image_id": "2", "relevance": 1}]},
    ],
)
def test_cancelled_searches_of_every_form(
    hurried: FlaskClient, ids: list[str], body: dict[str, object]
) -> None:
    filled = {"image_id": ids[0]} | body
    if "examples" in body:
        filled |= {"examples": [ids[1]], "feedback": [{"image_id": ids[2], "relevance": 1}]}
    problem(hurried.post("/v1/search", json=filled), 504)


def test_other_requests_are_not_limited(hurried: FlaskClient, ids: list[str]) -> None:
    assert hurried.get(f"/v1/images/{ids[0]}").status_code == 200
    assert hurried.get("/v1/images?where=label=odd").status_code == 200
    assert hurried.get("/readyz").status_code == 200


def test_work_for_a_client_that_leaves_is_cancelled(hurried: FlaskClient) -> None:
    """Not only between stages: as soon as its connection is closed."""
    ours, theirs = socket.socketpair()
    leaving = threading.Timer(0.2, theirs.close)
    with ours, hurried.application.test_request_context(environ_overrides={"gunicorn.socket": ours}):
        leaving.start()
        started = time.monotonic()
        with pytest.raises(RequestTimeout, match="client left"), query_deadline(60):
            list(with_checkpoints(itertools.count()))
        assert 0.1 < time.monotonic() - started < 30
    leaving.join()


def test_limit_does_not_outlive_its_search(hurried: FlaskClient) -> None:
    with hurried.application.test_request_context():
        with pytest.raises(QueryCancelled), query_deadline(1e-6):
            list(with_checkpoints(range(10)))
        assert list(with_checkpoints(range(10))) == list(range(10))
