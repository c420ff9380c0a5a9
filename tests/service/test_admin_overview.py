"""What administrators see of the service: collections, requests, health and settings."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from cbir import settings
from cbir.settings import Settings
from service.access.token_stores import Scope
from service.app import create_app
from service.routes import metrics_routes
from service.routes.admin_overview import LIBRARIES, hide_password
from service.routes.metrics_routes import RequestHistory
from service.state.database import open_state
from service.state.sqlite_file import FILE
from tests.service.conftest import ONLY_FILE, problem, stored_tokens

ADMIN = "/v1/admin"

pytestmark = pytest.mark.usefixtures("each_database")


def test_collections(indexed: Path, tmp_path: Path, ids: list[str]) -> None:
    client = create_app([indexed, tmp_path / "absent"], settings.load()).test_client()
    good, absent = client.get(f"{ADMIN}/collections").json["items"]
    assert (good["name"], good["state"], good["folder"]) == (indexed.name, "ready", None)
    assert good["info"] == client.get("/v1/collection").json
    assert good["info"]["images"] == len(ids)
    assert good["changed"] == client.get("/v1/collection/history").json["items"][0]["at"]
    assert (absent["name"], absent["info"], absent["changed"]) == ("absent", None, None)
    assert "there is no collection" in absent["state"]


def test_requests_are_counted_by_day_and_method(client: FlaskClient, ids: list[str]) -> None:
    for method in ("none", "none", "eprf"):
        client.post("/v1/search", json={"image_id": ids[0], "rerank": method})
    client.post("/v1/search", json={"image_id": "absent"})
    client.get("/v1/images")
    client.get(f"/v1/images/{ids[0]}/thumbnail")  # too many to tell anything
    items = client.get(f"{ADMIN}/requests?days=1").json["items"]
    today = datetime.now(UTC).date().isoformat()
    assert {item["day"] for item in items} == {today}
    counts = {(item["action"], item["method"], item["outcome"]): item["count"] for item in items}
    assert counts == {
        ("list", "", "done"): 1,
        ("search", "", "failed"): 1,
        ("search", "eprf", "done"): 1,
        ("search", "none", "done"): 2,
    }
    assert "days" in problem(client.get(f"{ADMIN}/requests?days=0"), 422)


def test_refused_requests_are_counted(indexed: Path, state: Path) -> None:
    client = create_app(indexed, settings.load(require_tokens=True, state_folder=state)).test_client()
    tokens = stored_tokens(state)
    admin = {"Authorization": f"Bearer {tokens.create([Scope.admin])[1]}"}
    client.get("/v1/images", headers={"Authorization": "Bearer cbir_x_y"})
    client.get("/v1/images", headers={"Authorization": f"Bearer {tokens.create([Scope.ingest])[1]}"})
    (item,) = client.get(f"{ADMIN}/requests", headers=admin).json["items"]
    assert (item["action"], item["outcome"], item["count"]) == ("list", "refused", 2)


def test_counts_outlive_a_restart(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (
        RequestHistory(open_state(settings.load(state_folder=state))),
        RequestHistory(open_state(settings.load(state_folder=state))),
    )
    for _ in range(3):
        first.count("search", "eprf", 200)
        second.count("search", "eprf", 200)
    assert not state.exists()  # no write with each request
    monkeypatch.setattr(metrics_routes, "SAVE_SECONDS", 0.0)
    first.count("search", "eprf", 200)
    second.count("search", "eprf", 200)
    assert list(RequestHistory(open_state(settings.load(state_folder=state))).load(1).values()) == [8]


def test_old_days_are_forgotten(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history, now = RequestHistory(open_state(settings.load(state_folder=state))), datetime.now(UTC)

    class Clock(datetime):
        @classmethod
        def now(cls, *_: object) -> datetime:  # type: ignore[override]
            return now

    monkeypatch.setattr(metrics_routes, "datetime", Clock)
    history.count("search", "", 200)
    assert len(history.load(1)) == 1
    now += timedelta(days=29)
    history.count("delete", "", 500)
    assert [len(history.load(days)) for days in (1, 29, 30)] == [1, 1, 2]
    now += timedelta(days=372)
    history.count("delete", "", 500)
    assert len(history.load(400)) == 2


def test_health(indexed: Path, state: Path) -> None:
    active = settings.load(require_tokens=True, state_folder=state)
    token = stored_tokens(state).create([Scope.admin])[1]
    client = create_app(indexed, active).test_client()
    headers = {"Authorization": f"Bearer {token}"}
    health = client.get(f"{ADMIN}/health", headers=headers).json
    assert {part["name"]: part["state"] for part in health["parts"]} == {
        f"collection {indexed.name}": "ready",
        "tokens": "ok",
        "audit log": "ok",
        "state database": "ok",
        "hospital login": "off",
    }
    assert all(0 < disk["free_bytes"] < disk["total_bytes"] for disk in health["disks"])
    assert health["memory_bytes"] is None or 10**7 < health["memory_bytes"] < 10**11
    assert (health["working"], health["waiting"], health["threads"]) == (0, 0, active.threads)
    assert {"cbir", "python", "sqlite", *map(str.lower, LIBRARIES)} == set(health["versions"])
    assert datetime.now(UTC) - datetime.fromisoformat(health["started"]) < timedelta(minutes=5)


@ONLY_FILE
def test_health_names_a_broken_part(indexed: Path, state: Path) -> None:
    state.mkdir(mode=0o700)
    (state / FILE).write_bytes(b"x" * 4096)
    (state / FILE).chmod(0o600)
    client = create_app(indexed, settings.load(state_folder=state)).test_client()
    parts = {part["name"]: part["state"] for part in client.get(f"{ADMIN}/health").json["parts"]}
    assert "not a database" in parts["state database"]
    assert (parts["tokens"], parts["audit log"]) == ("off", "off")
    assert client.get(f"{ADMIN}/requests").status_code == 200
    assert client.get("/v1/jobs").json == {"items": []}


def test_settings(indexed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cbir.toml").write_text('threads = 3\nallowed_hosts = ["a.example", "b.example"]\n')
    monkeypatch.setenv("CBIR_CONFIG", str(tmp_path / "cbir.toml"))
    monkeypatch.setenv("CBIR_QUEUE", "9")
    active = settings.load(port=8123, require_tokens=False)
    client = create_app(indexed, active).test_client()
    (tmp_path / "cbir.toml").write_text("threads = 5\n")  # not in force before the next start
    items = client.get(f"{ADMIN}/settings").json["items"]
    assert [item["name"] for item in items] == list(Settings.model_fields)
    shown = {item["name"]: (item["value"], item["origin"]) for item in items}
    assert shown["threads"] == ("3", str(tmp_path / "cbir.toml"))
    assert shown["allowed_hosts"] == ("a.example, b.example", str(tmp_path / "cbir.toml"))
    assert shown["queue"] == ("9", "environment")
    assert shown["port"] == ("8123", "command line")
    assert shown["max_results"] == ("1000", "default")
    assert shown["archive_url"] == ("", "default")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://cbir:s3cret@db/x", "postgresql://cbir:***@db/x"),
        ("https://user:a:b@host", "https://user:***@host"),
        ("https://host:8000/a@b", "https://host:8000/a@b"),
        ("http://[::1]:80", "http://[::1]:80"),
        ("12", "12"),
    ],
)
def test_passwords_are_hidden(text: str, shown: str) -> None:
    assert hide_password(text) == shown
