"""Whom to believe about where a request comes from."""

from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, jsonify, request
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st

from cbir import settings
from service.access.proxies import TrustedProxies, parse_address
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from tests.service.conftest import problem

PROXY = "10.0.0.1"


@pytest.fixture
def client() -> FlaskClient:
    """An app that says what it was told."""
    app = Flask(__name__)
    app.wsgi_app = TrustedProxies(app.wsgi_app, ["10.0.0.0/24", "fd00::1"])  # type: ignore[method-assign]

    @app.get("/")
    def told() -> Any:
        left = [name for name in request.headers.keys() if "Forwarded" in name]  # noqa: SIM118
        return jsonify(address=request.remote_addr, scheme=request.scheme, host=request.host, left=left)

    return app.test_client()


def told(client: FlaskClient, peer: str, **headers: str) -> dict[str, Any]:
    names = {f"X-Forwarded-{name}": value for name, value in headers.items()}
    answer: dict[str, Any] = client.get("/", headers=names, environ_base={"REMOTE_ADDR": peer}).json
    assert answer.pop("left") == []
    return answer


def test_proxy_is_believed(client: FlaskClient) -> None:
    said = told(client, PROXY, For="203.0.113.9", Proto="https", Host="cbir.example.org")
    assert said == {"address": "203.0.113.9", "scheme": "https", "host": "cbir.example.org"}


@pytest.mark.parametrize("peer", ["10.0.1.1", "127.0.0.1", "203.0.113.9", "fd00::2", ""])
def test_others_are_not(client: FlaskClient, peer: str) -> None:
    said = told(client, peer, For="127.0.0.1", Proto="https", Host="example.org", Prefix="/x", Port="1")
    assert said == {"address": peer or None, "scheme": "http", "host": "localhost"} or (
        peer == "" and said["scheme"] == "http" and said["host"] == "localhost"
    )


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("127.0.0.1, 203.0.113.9", "203.0.113.9"),  # the client wrote the first
        ("203.0.113.9, 10.0.0.2, 10.0.0.3", "203.0.113.9"),
        ("1.1.1.1, 203.0.113.9, fd00::1", "203.0.113.9"),
        ("203.0.113.9:4711", "203.0.113.9"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("unknown", PROXY),
        ("203.0.113.9, unknown", PROXY),
        ("", PROXY),
        (",,,", PROXY),
        ("127.0.0.1," * 500 + "203.0.113.9", "203.0.113.9"),
        ("10.0.0.2", "10.0.0.2"),
    ],
)
def test_last_address_that_is_no_proxy(client: FlaskClient, value: str, address: str) -> None:
    assert told(client, PROXY, For=value)["address"] == address


def test_last_value_of_protocol_and_host(client: FlaskClient) -> None:
    said = told(client, PROXY, Proto="https, http", Host="evil.example, cbir.example.org")
    assert (said["scheme"], said["host"]) == ("http", "cbir.example.org")
    assert told(client, PROXY, Proto="gopher")["scheme"] == "http"


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_none(text: str) -> None:
    found = parse_address(text)
    assert found is None or ip_address(str(found)) == found


def test_service_behind_a_proxy(indexed: Path, tmp_path: Path, ids: list[str]) -> None:
    tokens = TokenStore(tmp_path)
    app = create_app(
        indexed,
        settings.load(state_folder=tmp_path, trusted_proxies="127.0.0.1", allowed_hosts="cbir.example.org"),
    )
    client = app.test_client()
    headers = {
        "X-Forwarded-For": "203.0.113.9",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "cbir.example.org",
        "Origin": "https://cbir.example.org",
    }
    problem(client.post("/v1/search", json={"image_id": ids[0]}, headers=headers), 401)
    text = tokens.create([Scope.search])[1]
    answer = client.post("/login", data={"token": text}, headers=headers)
    assert answer.status_code == 303
    assert answer.headers["Set-Cookie"].startswith("__Host-cbir=")
    assert "Secure" in answer.headers["Set-Cookie"]
    body = {"image_id": ids[0]}
    token = headers | {"Authorization": f"Bearer {text}"}
    assert client.post("/v1/search", json=body, headers=token).status_code == 200
    problem(client.post("/v1/search", json=body, headers=token | {"Origin": "http://cbir.example.org"}), 403)
    problem(client.post("/v1/search", json=body, headers=token | {"X-Forwarded-Host": "example.org"}), 421)


def test_failures_are_counted_by_client_not_by_proxy(indexed: Path, tmp_path: Path) -> None:
    app = create_app(
        indexed, settings.load(state_folder=tmp_path, trusted_proxies="127.0.0.1", failed_attempts=1)
    )
    client = app.test_client()
    for address, status in (("203.0.113.9", 401), ("203.0.113.9", 429), ("203.0.113.10", 401)):
        headers = {"X-Forwarded-For": f"1.2.3.4, {address}", "Authorization": "Bearer x"}
        problem(client.get("/", headers=headers), status)


SIGNS = {
    "X-Forwarded-For": "203.0.113.9",
    "X-Forwarded-Proto": "http",
    "X-Forwarded-Server": "gateway",
    "Forwarded": "for=203.0.113.9",
    "Via": "1.1 gateway",
    "X-Real-IP": "203.0.113.9",
    "x-forwarded-anything": "",
}


@pytest.mark.parametrize("sign", SIGNS)
def test_unknown_proxy_on_this_machine_is_told_of(
    indexed: Path, ids: list[str], tmp_path: Path, sign: str
) -> None:
    """Whoever it passes on would otherwise be taken for this machine: without tokens, and for the encryption."""
    headers = {sign: SIGNS[sign]}
    client = create_app(indexed, settings.load()).test_client()
    assert client.get(f"/v1/images/{ids[0]}").status_code == 200
    for peer in ("127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1", ""):
        from_peer = {"REMOTE_ADDR": peer}
        for path in (f"/v1/images/{ids[0]}", "/", "/metrics", "/none"):
            said = problem(client.get(path, headers=headers, environ_base=from_peer), 403)
            assert "trusted_proxies" in said
    tokens = TokenStore(tmp_path)
    token = {"Authorization": f"Bearer {tokens.create([Scope.search])[1]}"}
    closed = settings.load(state_folder=tmp_path, require_tokens=True)
    client = create_app(indexed, closed).test_client()
    assert client.get(f"/v1/images/{ids[0]}", headers=token).status_code == 200
    assert "trusted_proxies" in problem(client.get(f"/v1/images/{ids[0]}", headers=token | headers), 403)


@pytest.mark.parametrize("sign", SIGNS)
def test_proxy_that_checks_who_asks(indexed: Path, ids: list[str], sign: str) -> None:
    known = settings.load(trusted_proxies="127.0.0.1", require_tokens=False)
    client = create_app(indexed, known).test_client()
    assert client.get(f"/v1/images/{ids[0]}", headers={sign: SIGNS[sign]}).status_code == 200


def test_others_may_sit_behind_a_proxy_of_their_own(indexed: Path, ids: list[str], tmp_path: Path) -> None:
    """From another machine such a header opens nothing and shuts nobody out."""
    token = {"Authorization": f"Bearer {TokenStore(tmp_path).create([Scope.search])[1]}"}
    client = create_app(indexed, settings.load(state_folder=tmp_path, require_tokens=True)).test_client()
    for headers, status in ((token, 200), ({}, 401)):
        answer = client.get(
            f"/v1/images/{ids[0]}",
            base_url="https://localhost",
            headers=headers | {"Via": "1.1 gateway", "X-Forwarded-For": "127.0.0.1"},
            environ_base={"REMOTE_ADDR": "203.0.113.9"},
        )
        assert answer.status_code == status
