"""The service while the PostgreSQL server of its state does not answer."""

from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from cbir import settings
from service.access.auth import EXTENSION as ACCESS
from service.access.token_stores import Scope
from service.app import create_app
from service.state.database import install, open_state
from tests.postgresql_server import PostgresqlServer
from tests.service.conftest import problem, stored_tokens

DOWN = "postgresql+psycopg://cbir:s3cret@127.0.0.1:1/hospital"


@pytest.fixture
def app(indexed: Path, state: Path, postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch) -> Flask:
    """A service that has read its tokens before the server went down."""
    monkeypatch.setenv("CBIR_STATE_DATABASE", postgresql.new_schema())
    token = stored_tokens(state).create([Scope.admin, Scope.search])[1]
    app = create_app(
        indexed, settings.load(require_tokens=True, state_folder=state, audit_log=state / "audit")
    )
    app.config["TOKEN"] = token
    control = app.extensions[ACCESS]
    assert control.tokens.find(token)
    down = open_state(settings.load(state_folder=state, state_database=DOWN))
    for holder in (control.tokens, control.sessions, control.last_uses, app.extensions["cbir"]):
        name = "database" if holder is app.extensions["cbir"] else "_database"
        monkeypatch.setattr(holder, name, down)
    install(app, down)
    settings_down = settings.load(state_folder=state, state_database=DOWN)
    monkeypatch.setattr(app.extensions["cbir"], "settings", settings_down)
    return app


@pytest.fixture
def bearer(app: Flask) -> dict[str, str]:
    return {"Authorization": f"Bearer {app.config['TOKEN']}"}


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


def test_searches_with_a_token_go_on(client: FlaskClient, bearer: dict[str, str], ids: list[str]) -> None:
    answer = client.post("/v1/search", json={"image_id": ids[0], "k": 3}, headers=bearer)
    assert len(answer.json["results"]) == 3  # type: ignore[index]
    client.set_cookie("cbir", "of a login before")
    assert client.post("/v1/search", json={"image_id": ids[0]}, headers=bearer).status_code == 200


@pytest.mark.features
def test_what_needs_the_state_says_when_to_try_again(client: FlaskClient, bearer: dict[str, str]) -> None:
    answer = client.get("/v1/cases", headers=bearer)
    assert "cbir:***@127.0.0.1" in problem(answer, 503)
    assert answer.headers["Retry-After"] == "1"
    assert "s3cret" not in answer.text


def test_a_login_is_neither_made_nor_taken_for_ended(client: FlaskClient, bearer: dict[str, str]) -> None:
    token = bearer["Authorization"].split()[1]
    refused = client.post("/login", data={"token": token})
    problem(refused, 503)
    assert "Set-Cookie" not in refused.headers
    client.set_cookie("cbir", "of a login before")
    answer = client.get("/?k=5")
    assert "log of the service says why" in problem(answer, 503), "a redirect to /login would lose the login"
    for open_to_all in ("/login", "/healthz", "/static/page.css"):
        assert client.get(open_to_all).status_code == 200


@pytest.mark.features
@pytest.mark.parametrize(
    ("language", "heading"),
    [
        ("en", "The database does not answer"),
        ("de", "Die Datenbank antwortet nicht"),
        ("es", "La base de datos no responde"),
        ("fr", "La base de données ne répond pas"),
        ("zh-Hans", "数据库没有响应"),
    ],
)
@pytest.mark.parametrize("path", ["/?k=5", "/saved", "/browse"])
def test_browsers_get_a_page_with_when_to_try_again(
    client: FlaskClient, path: str, language: str, heading: str
) -> None:
    client.set_cookie("cbir", "of a login before")
    page = client.get(path, headers={"Accept": "text/html,*/*;q=0.8", "Accept-Language": language})
    assert (page.status_code, page.mimetype, page.headers["Retry-After"]) == (503, "text/html", "1")
    assert heading in page.text
    assert f'href="{path if "?" in path else path + "?"}"' in page.text
    assert "s3cret" not in page.text
    assert "127.0.0.1:1" not in page.text
    api = client.get("/v1/cases", headers={"Accept": "text/html"})
    assert problem(api, 503)


def test_health_and_settings_show_no_password(client: FlaskClient, bearer: dict[str, str]) -> None:
    health = client.get("/v1/admin/health", headers=bearer)
    parts = {part["name"]: part["state"] for part in health.json["parts"]}  # type: ignore[index]
    assert "cbir:***@127.0.0.1" in parts["state database"]
    shown = client.get("/v1/admin/settings", headers=bearer)
    assert "cbir:***@127.0.0.1" in shown.text
    assert "s3cret" not in health.text + shown.text
