"""Logins by the hospital's identity: users whom a trusted proxy names."""

import json
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from cbir import settings
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from tests.service.conftest import problem
from tests.service.identity_provider import GROUPS

PROXY = "10.0.0.1"


def behind_proxy(folder: Path, state: Path) -> Flask:
    return create_app(
        folder,
        settings.load(
            state_folder=state,
            trusted_proxies=(PROXY,),
            proxy_user_header="X-Remote-User",
            proxy_groups_header="X-Remote-Groups",
            groups=GROUPS,
        ),
    )


def send(app: Flask, address: str, peer: str = PROXY, method: str = "GET", **headers: str) -> Any:
    names = {"X-Forwarded-Proto": "https"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    names = (
        names if peer == PROXY else {name: value for name, value in names.items() if "Forwarded" not in name}
    )
    return app.test_client().open(address, method=method, headers=names, environ_base={"REMOTE_ADDR": peer})


def test_the_proxy_names_the_user(indexed: Path, state: Path, ids: list[str]) -> None:
    app = behind_proxy(indexed, state)
    seen = send(app, "/v1/images?limit=1000", X_Remote_User="jdoe", X_Remote_Groups="staff, radiology")
    assert {item["labels"]["label"] for item in seen.json["items"]} == {"even"}
    everything = send(app, "/v1/images?limit=1000", X_Remote_User="boss", X_Remote_Groups="chief,radiology")
    assert len(everything.json["items"]) == len(ids), "the first group of the settings counts"
    problem(send(app, "/v1/collection/history", X_Remote_User="jdoe", X_Remote_Groups="radiology"), 403)
    assert (
        send(app, "/v1/collection/history", X_Remote_User="boss", X_Remote_Groups="chief").status_code == 200
    )
    problem(send(app, "/v1/collection", X_Remote_User="s", X_Remote_Groups="students"), 404)
    written = [json.loads(line) for line in (state / "audit.jsonl").read_text().splitlines()]
    assert [(line["user"], line["token"]) for line in written[:2]] == [("jdoe", None), ("boss", None)]


def test_changes_carry_the_users_name(writable: Path, state: Path, ids: list[str]) -> None:
    app = behind_proxy(writable, state)
    headers = {"X_Remote_User": "Böß".encode().decode("latin-1"), "X_Remote_Groups": "chief"}
    assert send(app, f"/v1/images/{ids[0]}", method="DELETE", **headers).status_code == 204
    newest = send(app, "/v1/collection/history", **headers).json["items"][0]
    assert newest["who"] == "user Böß"
    cross = send(app, f"/v1/images/{ids[1]}", method="DELETE", Origin="https://evil.example", **headers)
    problem(cross, 403)


@pytest.mark.parametrize("peer", ["127.0.0.1", "203.0.113.9", ""])
def test_others_cannot_name_a_user(indexed: Path, state: Path, peer: str) -> None:
    answer = send(
        behind_proxy(indexed, state), "/v1/images", peer, X_Remote_User="boss", X_Remote_Groups="chief"
    )
    assert answer.status_code in (401, 403)
    named = {"HTTP_X_REMOTE_USER": "boss", "HTTP_X_REMOTE_GROUPS": "chief", "REMOTE_ADDR": peer}
    assert behind_proxy(indexed, state).test_client().get("/v1/images", environ_base=named).status_code in (
        401,
        403,
    )


@pytest.mark.parametrize(
    ("user", "groups", "status"),
    [
        ("", "chief", 401),
        ("jdoe", "", 403),
        ("jdoe", "nobody", 403),
        ("x" * 101, "chief", 403),
        ("a\x1bb", "chief", 403),
    ],
)
def test_users_without_rights(indexed: Path, state: Path, user: str, groups: str, status: int) -> None:
    problem(
        send(behind_proxy(indexed, state), "/v1/images", X_Remote_User=user, X_Remote_Groups=groups), status
    )


def test_a_token_counts_more_than_the_proxy(indexed: Path, state: Path) -> None:
    app = behind_proxy(indexed, state)
    text = TokenStore(state).create([Scope.search])[1]
    sent = {"X_Remote_User": "boss", "X_Remote_Groups": "chief", "Authorization": f"Bearer {text}"}
    problem(send(app, "/v1/collection/history", **sent), 403)
    problem(send(app, "/v1/images", **sent | {"Authorization": "Bearer wrong"}), 401)
