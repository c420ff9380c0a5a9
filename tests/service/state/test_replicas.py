"""Two services that share a PostgreSQL database, as replicas behind a proxy do."""

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx
import pytest
from sqlalchemy import select

from cbir import settings
from service.access.sessions import CHECK_SECONDS
from service.access.token_stores import Scope, SharedTokens
from service.features.saved.cases.tables import cases
from service.state.database import open_state
from tests.postgresql_server import PostgresqlServer, missing_reason
from tests.service.conftest import Served, command, serving

SAVERS = 3  # threads that save cases
RECOVERY_SECONDS = 120


@pytest.fixture
def server() -> Iterator[PostgresqlServer]:
    """A server of its own, to be killed."""
    if reason := missing_reason():
        pytest.skip(reason)
    running = PostgresqlServer()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def address(server: PostgresqlServer) -> str:
    return server.new_schema()


@pytest.fixture
def replicas(address: str, indexed: Path, state: Path) -> Iterator[tuple[Served, Served]]:
    environment = {
        "CBIR_STATE_DATABASE": address,
        "CBIR_STATE_FOLDER": str(state),
        "CBIR_REQUIRE_TOKENS": "true",
        "CBIR_FAILED_ATTEMPTS": "3",
    }
    tokens_of(address).create([Scope.search], name="first")
    with serving(indexed, **environment) as one, serving(indexed, **environment) as other:
        yield one, other


def tokens_of(address: str) -> SharedTokens:
    return SharedTokens(open_state(settings.load(state_database=address)))


def browser(service: Served) -> httpx.Client:
    return httpx.Client(base_url=service.address, timeout=30)


def case(image_id: str, title: str) -> dict[str, object]:
    return {
        "title": title,
        "search": {"image_id": image_id, "k": 1},
        "method": "none",
        "answers": [],
        "marks": [],
    }


def test_login_cases_and_failures_are_shared_and_a_killed_server_loses_nothing(
    replicas: tuple[Served, Served], server: PostgresqlServer, address: str, state: Path, ids: list[str]
) -> None:
    text = tokens_of(address).create([Scope.search])[1]
    with browser(replicas[0]) as one, browser(replicas[1]) as other:
        _share_login(one, other, text, ids[0])
        bearer = {"Authorization": f"Bearer {text}"}
        saved = _save_while_killing(one, other, bearer, server, ids[0])
        with open_state(settings.load(state_database=address)).reading() as connection:
            titles = connection.execute(select(cases.c.title)).scalars().all()
        assert saved <= set(titles)
        assert len(set(titles)) == len(titles)
        _block_guesses(one, other)
    shared = {"CBIR_STATE_DATABASE": address, "CBIR_STATE_FOLDER": str(state)}
    verified = command("admin", "audit-log", "verify", **shared)
    assert "unbroken" in verified[1], verified
    actions = {
        json.loads(line)["action"]
        for line in command("admin", "audit-log", "export", **shared)[1].splitlines()
    }
    assert {"login", "save-case", "lines not written"} <= actions
    for service in replicas:
        code, log = service.stop()
        assert (code, "Traceback" in log) == (0, False), log
        assert "cannot be used" in log


def _share_login(one: httpx.Client, other: httpx.Client, text: str, image_id: str) -> None:
    assert one.post("/login", data={"token": text}).status_code == 303
    other.cookies.update(one.cookies)
    found = re.search(r'<meta name="csrf" content="([^"]+)">', other.get("/").text)
    assert found
    csrf = {"X-CSRF-Token": found[1]}
    assert other.post("/v1/cases", json=case(image_id, "Seen by both"), headers=csrf).status_code == 201
    assert [item["title"] for item in one.get("/v1/cases").json()["items"]] == ["Seen by both"]
    assert one.post("/logout", headers=csrf).status_code == 303
    end = time.monotonic() + CHECK_SECONDS + 60
    while other.get("/v1/cases").status_code != 401:
        assert time.monotonic() < end, "the logout has not reached the other service"
        time.sleep(0.25)
    for client in (one, other):
        client.cookies.clear()


def _save_while_killing(
    one: httpx.Client, other: httpx.Client, bearer: dict[str, str], server: PostgresqlServer, image_id: str
) -> set[str]:
    """Save cases at both services while the server is killed twice; the titles of those acknowledged."""
    done, saved, statuses = Event(), set(), set()

    def save(number: int) -> None:
        for count in range(10_000):
            if done.is_set():
                return
            title = f"{number}-{count}"
            answer = (one, other)[count % 2].post("/v1/cases", json=case(image_id, title), headers=bearer)
            statuses.add(answer.status_code)
            if answer.status_code == 201:
                saved.add(title)
                time.sleep(0.02)  # the number of cases of a caller is limited
            else:
                assert answer.json()["type"].endswith("#state-unavailable"), answer.text
                assert answer.headers["Retry-After"]
                time.sleep(0.1)

    with ThreadPoolExecutor(SAVERS) as pool:
        running = [pool.submit(save, number) for number in range(SAVERS)]
        try:
            for _ in range(2):
                time.sleep(0.5)
                server.kill()
                for client in (one, other):  # a search needs no state
                    query = {"image_id": image_id, "k": 3}
                    assert client.post("/v1/search", json=query, headers=bearer).status_code == 200
                    down = ["state database", "audit log"]  # which is in the same database
                    _wait_for_health(client, {"status": "degraded", "degraded": down})
                    assert client.get("/readyz").json() == {"status": "ready", "degraded": down}
                    assert client.get("/livez").json() == {"status": "ok"}
                time.sleep(0.5)
                server.start()
                end = time.monotonic() + RECOVERY_SECONDS
                while {client.get("/v1/cases", headers=bearer).status_code for client in (one, other)} != {
                    200
                }:
                    assert time.monotonic() < end, "a service has not recovered"
                    time.sleep(0.1)
                for client in (one, other):
                    _wait_for_health(client, {"status": "ok"})
        finally:
            done.set()
        for each in running:
            each.result()
    assert statuses == {201, 503}
    return saved


def _wait_for_health(client: httpx.Client, health: dict[str, object]) -> None:
    end = time.monotonic() + RECOVERY_SECONDS
    while client.get("/healthz").json() != health:
        assert time.monotonic() < end, client.get("/healthz").text
        time.sleep(0.1)


def _block_guesses(one: httpx.Client, other: httpx.Client) -> None:
    wrong = {"Authorization": "Bearer cbir_00000000_guess"}
    assert [one.get("/v1/cases", headers=wrong).status_code for _ in range(4)] == [401, 401, 401, 429]
    assert [other.get("/v1/cases", headers=wrong).status_code for _ in range(2)] == [401, 429]
