"""Tokens over HTTP: the same as `cbir admin token`, and no way to more rights than the caller has."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient
from typer.testing import CliRunner
from werkzeug.test import TestResponse

from cbir import settings
from cbir.api.main import app as commands
from cbir.system.access_rights import Rights
from service.access import token_stores
from service.access.token_stores import Scope, TokenStore, open_tokens
from service.app import create_app
from service.state.database import open_state
from tests.service.conftest import problem, stored_tokens

TOKENS = "/v1/admin/tokens"
ADDRESSES = (TOKENS, "/v1/admin/collections", "/v1/admin/requests", "/v1/admin/health", "/v1/admin/settings")


@pytest.fixture
def tokens(state: Path) -> TokenStore:
    return stored_tokens(state)


@pytest.fixture
def closed(indexed: Path, state: Path) -> Flask:
    return create_app(indexed, settings.load(require_tokens=True, state_folder=state))


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


@pytest.fixture
def admin(tokens: TokenStore) -> dict[str, str]:
    return bearer(tokens.create([Scope.admin])[1])


def test_created_token_is_that_of_the_command(
    closed: Flask, tokens: TokenStore, admin: dict[str, str], indexed: Path
) -> None:
    client = closed.test_client()
    body = {"scopes": ["search"], "name": "reading room", "expires": "4w", "collections": [indexed.name]}
    answer = client.post(TOKENS, json=body, headers=admin)
    assert answer.status_code == 201
    made = answer.json or {}
    token = tokens.find(made["token"])
    assert token
    assert (token.scopes, token.collections, token.name) == ((Scope.search,), (indexed.name,), "reading room")
    assert token.expires
    assert abs(token.expires - datetime.now(UTC) - timedelta(weeks=4)) < timedelta(minutes=1)
    assert made["info"]["token_id"] == token.token_id
    assert client.get("/v1/collection", headers=bearer(made["token"])).status_code == 200
    listed = client.get(TOKENS, headers=admin)
    assert made["token"].split("_", 2)[2] not in listed.text
    assert token.digest not in listed.text
    assert listed.json["items"][0]["token_id"] == token.token_id  # type: ignore[index]


def test_revoked_token_ends(closed: Flask, tokens: TokenStore, admin: dict[str, str]) -> None:
    client = closed.test_client()
    token, text = tokens.create([Scope.search])
    answer = client.post(f"{TOKENS}/{token.token_id}/revoke", headers=admin)
    assert answer.json["state"] == "revoked"  # type: ignore[index]
    assert "revoked" in problem(client.get("/v1/collection", headers=bearer(text)), 401)
    problem(client.post(f"{TOKENS}/nothing/revoke", headers=admin), 404)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"scopes": []}, "at least one of"),
        ({"scopes": ["root"]}, "scopes"),
        ({"scopes": ["search"], "expires": "soon"}, "expires 'soon'"),
        ({"scopes": ["search"], "expires": "2001-01-01"}, "in the past"),
        ({"scopes": ["search"], "name": "x" * 101}, "name: at most 100"),
        ({"scopes": ["admin"], "where": ["site=A"]}, "cannot limit the scope admin"),
        ({"scopes": ["search"], "where": ["?"]}, "where"),
        ({"scopes": ["search"], "digest": "0" * 64}, "digest"),
    ],
)
def test_what_does_not_fit(
    closed: Flask, tokens: TokenStore, admin: dict[str, str], body: dict[str, object], said: str
) -> None:
    before = tokens.all()
    detail = problem(closed.test_client().post(TOKENS, json=body, headers=admin), 422)
    assert said in detail
    assert not detail.startswith("--")
    assert tokens.all() == before


def test_a_token_cannot_outlive_its_creator(closed: Flask, tokens: TokenStore) -> None:
    client = closed.test_client()
    ends = datetime.now(UTC).replace(microsecond=0) + timedelta(days=10)
    short = bearer(tokens.create([Scope.admin], ends)[1])
    for expires in ("never", "11d"):
        answer = client.post(TOKENS, json={"scopes": ["search"], "expires": expires}, headers=short)
        assert "cannot outlive" in problem(answer, 422)
    made = [
        client.post(TOKENS, json={"scopes": ["search"]} | more, headers=short).json["info"]["expires"]  # type: ignore[index]
        for more in ({}, {"expires": "9d"})
    ]
    assert datetime.fromisoformat(made[0]) == ends
    assert datetime.fromisoformat(made[1]) < ends


def test_without_an_expiry_a_token_has_90_days(closed: Flask, admin: dict[str, str]) -> None:
    made = closed.test_client().post(TOKENS, json={"scopes": ["search"]}, headers=admin).json or {}
    left = datetime.fromisoformat(made["info"]["expires"]) - datetime.now(UTC)
    assert timedelta(days=89, hours=23) < left <= timedelta(days=90)


@pytest.mark.parametrize("scope", [scope for scope in Scope if scope is not Scope.admin])
def test_other_scopes_may_see_nothing(closed: Flask, tokens: TokenStore, scope: Scope) -> None:
    headers = bearer(tokens.create([scope])[1])
    client = closed.test_client()
    for address in (*ADDRESSES, "/admin"):
        assert "scope admin" in problem(client.get(address, headers=headers), 403)
    problem(client.post(TOKENS, json={"scopes": ["search"]}, headers=headers), 403)
    problem(client.post(f"{TOKENS}/x/revoke", headers=headers), 403)
    assert len(tokens.all()) == 1


def test_administrators_of_a_collection_may_not_run_the_service(
    closed: Flask, tokens: TokenStore, indexed: Path
) -> None:
    """Else they could create a token for all collections."""
    headers = bearer(tokens.create([Scope.admin], collections=[indexed.name])[1])
    client = closed.test_client()
    for address in (*ADDRESSES, "/admin"):
        assert "limited to a part" in problem(client.get(address, headers=headers), 403)
    problem(client.post(TOKENS, json={"scopes": ["admin"]}, headers=headers), 403)
    assert len(tokens.all()) == 1


def test_group_of_administrators_may(indexed: Path, state: Path) -> None:
    active = settings.load(
        state_folder=state,
        trusted_proxies="127.0.0.1",
        proxy_user_header="X-Remote-User",
        proxy_groups_header="X-Remote-Groups",
        groups={"it": Rights(scopes=(Scope.admin,)), "ward": Rights(scopes=(Scope.search,))},
    )
    client = create_app(indexed, active).test_client()

    def create(group: str, expires: str) -> TestResponse:
        headers = {"X-Remote-User": "mia", "X-Remote-Groups": group}
        return client.post(TOKENS, json={"scopes": ["search"], "expires": expires}, headers=headers)

    assert [create(group, "30d").status_code for group in ("it", "ward")] == [201, 403]
    assert "at most 90 days" in problem(create("it", "never"), 422)  # it would outlive the group


def test_service_that_needs_no_tokens_creates_none(client: FlaskClient) -> None:
    """Else anyone on this machine could keep one until the service needs them."""
    assert client.get(TOKENS).json == {"items": []}
    assert "needs no tokens" in problem(client.post(TOKENS, json={"scopes": ["admin"]}), 403)


def test_login_needs_its_csrf_value(closed: Flask, tokens: TokenStore) -> None:
    client = closed.test_client()
    client.post("/login", data={"token": tokens.create([Scope.admin])[1]})
    assert "X-CSRF-Token" in problem(client.post(TOKENS, json={"scopes": ["admin"]}), 403)
    assert len(tokens.all()) == 1


def test_changes_are_in_the_audit_log(closed: Flask, tokens: TokenStore, admin: dict[str, str]) -> None:
    client = closed.test_client()
    made = client.post(TOKENS, json={"scopes": ["search"]}, headers=admin).json or {}
    changed = made["info"]["token_id"]
    client.post(f"{TOKENS}/{changed}/revoke", headers=admin)
    client.post(TOKENS, json={"scopes": ["search"]}, headers=bearer(made["token"]))
    lines = [json.loads(line) for line in (tokens.file.parent / "audit.jsonl").read_text().splitlines()]
    first = next(iter(tokens.all()))
    assert [(line["action"], line["token"], line.get("changed_token"), line["status"]) for line in lines] == [
        ("token-create", first, changed, 201),
        ("token-revoke", first, changed, 200),
        ("token-create", None, None, 401),
    ]
    assert made["token"].split("_", 2)[2] not in str(lines)


def test_the_audit_log_names_all_revoked_tokens(
    closed: Flask, tokens: TokenStore, admin: dict[str, str]
) -> None:
    client = closed.test_client()
    made, header = list[str](), admin
    for _ in range(4):
        answer = client.post(TOKENS, json={"scopes": ["admin"]}, headers=header).json
        header = bearer(answer["token"])
        made.append(answer["info"]["token_id"])
    client.post(f"{TOKENS}/{made[2]}/revoke", headers=admin)
    client.post(f"{TOKENS}/{made[0]}/revoke?with_made=true", headers=admin)
    lines = [json.loads(line) for line in (tokens.file.parent / "audit.jsonl").read_text().splitlines()]
    *_, single, several = lines
    assert (single["changed_token"], single.get("also_revoked")) == (made[2], None)
    assert (several["changed_token"], several["also_revoked"]) == (made[0], [made[1], made[3]])


@pytest.mark.usefixtures("each_database")
def test_last_use_is_kept_and_seldom_written(
    closed: Flask, tokens: TokenStore, indexed: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, text = tokens.create([Scope.admin])
    idle, _ = tokens.create([Scope.search])
    saved: list[int] = []
    save = token_stores.save_use
    monkeypatch.setattr(token_stores, "save_use", lambda *use: saved.append(use[2]) or save(*use))
    now = 1_800_000_030
    monkeypatch.setattr(token_stores, "unix_time", lambda: now)
    client = closed.test_client()
    for _ in range(5):
        answer = client.get(TOKENS, headers=bearer(text))
    used = {item["token_id"]: item["last_used"] for item in (answer.json or {})["items"]}
    assert used[idle.token_id] is None
    assert datetime.fromisoformat(used[token.token_id]).timestamp() == 1_800_000_000
    now += 300
    client.get(TOKENS, headers=bearer(text))
    assert saved == [1_800_000_000]
    now += 300
    client.get(TOKENS, headers=bearer(text))
    assert saved == [1_800_000_000, 1_800_000_600]
    assert token_stores.LastUses(open_state(settings.load(state_folder=state))).all() == {
        token.token_id: 1_800_000_600
    }


def test_guesses_are_limited(closed: Flask, tokens: TokenStore) -> None:
    client = closed.test_client()
    codes = [client.post(TOKENS, json={}, headers=bearer("cbir_x_y")).status_code for _ in range(12)]
    assert codes == [401] * 10 + [429] * 2
    problem(client.get(TOKENS, headers=bearer(tokens.create([Scope.admin])[1])), 429)


@pytest.mark.usefixtures("each_database")
def test_tokens_of_a_revoked_administrator_are_listed_with_it_and_revoked(
    indexed: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    active = settings.load(require_tokens=True, state_folder=state)
    client, store = create_app(indexed, active).test_client(), open_tokens(active, open_state(active))
    stolen, text = store.create([Scope.admin])
    other, _ = store.create([Scope.search])
    first = client.post(TOKENS, json={"scopes": ["admin"]}, headers=bearer(text)).json
    second = client.post(TOKENS, json={"scopes": ["search"]}, headers=bearer(first["token"])).json
    assert (first["info"]["made_by"], second["info"]["made_by"]) == (
        f"token {stolen.token_id}",
        f"token {first['info']['token_id']}",
    )
    monkeypatch.setenv("CBIR_STATE_FOLDER", str(state))
    runner = CliRunner()
    assert f"made by token {stolen.token_id}" in runner.invoke(commands, ["admin", "token", "list"]).output
    plain = runner.invoke(commands, ["admin", "token", "revoke", stolen.token_id])
    made = [first["info"]["token_id"], second["info"]["token_id"]]
    assert all(name in plain.output for name in [*made, "--with-made"])
    assert client.get("/v1/collection", headers=bearer(second["token"])).status_code == 200
    again = runner.invoke(commands, ["admin", "token", "revoke", stolen.token_id, "--with-made"])
    assert (again.exit_code, again.output.count("revoked")) == (0, 3)
    fresh = open_tokens(active, open_state(active))
    assert [fresh.all()[name].state for name in (stolen.token_id, *made, other.token_id)] == [
        *["revoked"] * 3,
        "valid",
    ]


def test_revoking_with_what_it_has_made_over_http(
    closed: Flask, tokens: TokenStore, admin: dict[str, str]
) -> None:
    client = closed.test_client()
    stolen, text = tokens.create([Scope.admin])
    made = client.post(TOKENS, json={"scopes": ["search"]}, headers=bearer(text)).json
    assert client.post(f"{TOKENS}/{stolen.token_id}/revoke?with_made=true", headers=admin).status_code == 200
    problem(client.get("/v1/collection", headers=bearer(made["token"])), 401)
