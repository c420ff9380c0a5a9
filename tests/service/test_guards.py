"""Whose requests are answered, and what every response carries."""

from pathlib import Path

import pytest
from flask.testing import FlaskClient

from cbir import settings
from service.access.security import is_loopback
from service.app import create_app
from tests.service.conftest import problem


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "127.3.2.1", "[::1]:8000"])
def test_names_of_this_machine(client: FlaskClient, host: str) -> None:
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "example.org",
        "localhost.example.org",
        "127.0.0.1.example.org",
        "10.0.0.1:8000",
        "[::ffff:127.0.0.1]",
        "[::1",
    ],
)
@pytest.mark.parametrize("path", ["/", "/similar", "/healthz", "/v1/search", "/none"])
def test_other_names_are_refused(client: FlaskClient, host: str, path: str) -> None:
    problem(client.get(path, headers={"Host": host}), 421)


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://example.org"},
        {"Origin": "http://localhost:9999"},
        {"Origin": "null"},
    ],
)
def test_posts_of_other_sites_are_refused(client: FlaskClient, headers: dict[str, str]) -> None:
    problem(client.post("/v1/search", json={"image_id": "x"}, headers=headers), 403)


@pytest.mark.parametrize(
    "headers",
    [{}, {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"}, {"Sec-Fetch-Site": "none"}],
)
def test_own_page_and_programs_are_answered(client: FlaskClient, headers: dict[str, str]) -> None:
    problem(client.post("/v1/search", json={"image_id": "x"}, headers=headers), 404)


@pytest.mark.parametrize("path", ["/", "/similar", "/healthz", "/none", "/static/page.css"])
def test_headers_of_every_response(client: FlaskClient, path: str) -> None:
    with client.get(path) as answer:
        headers = answer.headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Access-Control-Allow-Origin" not in headers


def test_answers_are_not_stored(client: FlaskClient, ids: list[str]) -> None:
    image = f"/v1/images/{ids[0]}"
    for path, stored in (("/", "no-store"), (image, "no-store, no-transform")):  # a strong ETag stays strong
        assert client.get(path).headers["Cache-Control"] == stored


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.1", "", "example.org", "::ffff:127.0.0.1", "127.1"]
)
def test_addresses_that_others_reach(host: str) -> None:
    assert not is_loopback(host)


def test_browsers_are_told_to_use_encryption_only(indexed: Path) -> None:
    client = create_app(
        indexed, settings.load(allowed_hosts=("cbir.example",), require_tokens=False)
    ).test_client()
    header = "Strict-Transport-Security"
    assert client.get("/healthz", base_url="https://cbir.example").headers[header] == "max-age=31536000"
    assert header not in client.get("/healthz", base_url="http://cbir.example").headers
    assert header not in client.get("/healthz", base_url="https://localhost").headers
