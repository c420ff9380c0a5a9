"""How much of a body is read where no image is expected, however it is sent."""

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import httpx
import pytest
from flask.testing import FlaskClient

from cbir import settings
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from service.http.request_bodies import FORM, MAX_FORM_BYTES, MAX_JSON_BYTES
from tests.service.conftest import problem, serving

LONG = {"Content-Length": "2000000"}


def padded(size: int, **values: object) -> bytes:
    """JSON of that many bytes."""
    text = json.dumps(values).encode()
    return text + b" " * (size - len(text))


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", "/v1/search", "application/json"),
        ("PATCH", "/v1/images/ID", "application/json"),
        ("PATCH", "/v1/images/ID", "application/merge-patch+json"),
        ("POST", "/v1/jobs", "application/json"),
    ],
)
def test_json_is_small(client: FlaskClient, ids: list[str], method: str, path: str, kind: str) -> None:
    where = path.replace("ID", ids[0])
    answer = client.open(where, method=method, data=padded(MAX_JSON_BYTES + 1), content_type=kind)
    assert str(MAX_JSON_BYTES) in problem(answer, 413)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/images"),
        ("GET", "/v1/images/ID"),
        ("GET", "/v1/images/ID/thumbnail"),
        ("GET", "/v1/images/ID/picture"),
        ("GET", "/v1/collection"),
        ("GET", "/v1/collection/history"),
        ("DELETE", "/v1/images/none-such"),
        ("DELETE", "/v1/patients/x"),
    ],
)
@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/json"])
def test_no_body_is_read_where_none_is_needed(
    client: FlaskClient, ids: list[str], method: str, path: str, kind: str
) -> None:
    body = BytesIO(
        b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n' + bytes(2**20)
    )
    client.open(path.replace("ID", ids[0]), method=method, input_stream=body, content_type=kind, headers=LONG)
    assert body.tell() == 0


def test_json_of_just_the_size_is_read(client: FlaskClient, ids: list[str]) -> None:
    body = padded(MAX_JSON_BYTES, image_id=ids[0], k=3)
    answer = client.post("/v1/search", data=body, content_type="application/json")
    assert answer.text.count('"rank"') == 3


def pieces(first: bytes, count: int) -> Iterator[bytes]:
    """A body of no announced size, of 64 KiB more for each of `count`."""
    yield first
    for _ in range(count):
        yield b" " * 2**16


def refused(address: str, body: Iterator[bytes], headers: dict[str, str]) -> bool:
    """Whether a body is refused as too large; True also where the connection is closed with more to come."""
    try:
        answer = httpx.post(address, content=body, headers=headers)
    except (httpx.NetworkError, httpx.RemoteProtocolError):
        return True
    return answer.status_code == 413


@pytest.mark.slow
def test_bodies_of_no_announced_size(indexed: Path, ids: list[str], tmp_path: Path) -> None:
    first, state = json.dumps({"image_id": ids[0], "k": 3}).encode(), tmp_path / "state"
    token = TokenStore(state).create([Scope.search])[1]
    with serving(indexed, CBIR_REQUIRE_TOKENS="true", CBIR_STATE_FOLDER=str(state)) as running:
        search = f"{running.address}/v1/search"
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        assert httpx.post(search, content=pieces(first, 4), headers=headers).status_code == 200
        assert refused(search, pieces(first, 16), headers)
        assert refused(search, pieces(first, 1024), headers)
        login = f"{running.address}/login"
        form = {"Content-Type": FORM}
        assert refused(login, pieces(b"token=x&next=", 1), form)
        assert refused(login, pieces(b"token=x&next=", 1024), form)
        assert httpx.post(login, data={"token": "x"}).status_code == 401


def test_no_label_is_changed_by_what_is_too_large(writable: Path, ids: list[str]) -> None:
    client, path = create_app(writable, settings.load()).test_client(), f"/v1/images/{ids[0]}"
    before = client.get(path).json
    body = padded(2 * MAX_JSON_BYTES, labels={"label": "other"})
    problem(client.patch(path, data=body, content_type="application/json"), 413)
    assert client.get(path).json == before


@pytest.fixture
def tokens(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "state")


@pytest.fixture
def closed(indexed: Path, tokens: TokenStore) -> FlaskClient:
    """The service with tokens needed."""
    in_force = settings.load(require_tokens=True, state_folder=tokens.file.parent)
    return create_app(indexed, in_force).test_client()


def test_strangers_send_little(closed: FlaskClient, tokens: TokenStore) -> None:
    token = tokens.create([Scope.search])[1]
    detail = problem(closed.post("/login", data={"token": token, "next": "/" + "a" * MAX_FORM_BYTES}), 413)
    assert str(MAX_FORM_BYTES) in detail
    problem(closed.post("/login", data={"token": (BytesIO(token.encode()), "token.txt")}), 415)
    problem(closed.post("/login", json={"token": token}), 415)
    problem(closed.post("/login"), 415)
    assert closed.post("/login", data={"token": token}).status_code == 303


def test_a_waiting_address_sends_little_too(closed: FlaskClient) -> None:
    codes = [closed.post("/login", data={"token": "x"}).status_code for _ in range(11)]
    assert codes[-1] == 429
    problem(closed.post("/login", data={"token": "x", "next": "/" + "a" * MAX_FORM_BYTES}), 413)


def test_a_form_that_ends_a_session_is_small(closed: FlaskClient, tokens: TokenStore) -> None:
    closed.post("/login", data={"token": tokens.create([Scope.search])[1]})
    problem(closed.post("/logout", data={"csrf": "a" * MAX_FORM_BYTES}), 413)
    assert closed.get("/").status_code == 200
