"""Access control: which requests are allowed with tokens, and what the others get."""

import re
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from flask import Flask
from flask.testing import FlaskClient

from cbir import settings
from service.access import scopes
from service.access.auth import EXTENSION, AccessControl
from service.access.rate_limits import MAX_NETWORKS, Limiter
from service.access.scopes import AccessRule, OpenTo, all_rules
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from tests.service.conftest import command, problem, serving

RULES = all_rules()
OPEN_TO_ALL = {
    "GET /healthz",
    "GET /livez",
    "GET /readyz",
    "GET /static/*",
    "GET /languages/*/*.json",
    "GET /docs/errors",
    "GET /login",
    "POST /login",
    "GET /login/oidc",
    "GET /login/done",
    "GET /login/oidc/callback",
    "POST /logout",
    "GET /monailabel/auth/",
    "POST /monailabel/auth/token",
}


@pytest.fixture
def tokens(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "state")


@pytest.fixture
def closed(indexed: Path, tokens: TokenStore) -> Flask:
    """The service with tokens needed."""
    return create_app(
        indexed,
        settings.load(require_tokens=True, state_folder=tokens.file.parent, job_workers=0),
    )  # without jobs: one would add a map to the collection that other tests read


@pytest.fixture
def stranger(closed: Flask) -> FlaskClient:
    return closed.test_client()


def bearer(tokens: TokenStore, *scope: Scope) -> dict[str, str]:
    return {"Authorization": f"Bearer {tokens.create(scope)[1]}"}


@pytest.mark.slow
def test_every_address_has_an_entry(closed: Flask) -> None:
    for rule in closed.url_map.iter_rules():
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            assert scopes.rule_of_address(closed, method, rule.rule), (
                f"{method} {rule.rule} has no access rule"
            )


def test_every_entry_has_an_address(closed: Flask) -> None:
    rules = [(method, rule.rule) for rule in closed.url_map.iter_rules() for method in rule.methods or ()]
    assert {id(entry) for entry in RULES.values()} <= {
        id(scopes.rule_of_address(closed, *rule)) for rule in rules
    }


@pytest.mark.features
def test_what_is_open_to_all_is_meant_to_be() -> None:
    assert {address for address, entry in RULES.items() if entry.need is OpenTo.anyone} == OPEN_TO_ALL


SEARCHES = (
    "POST /v1/search",
    "POST /v1/search/batch",
    "POST /v1/grade",
    "POST /v1/render",
    "POST /v1/explain",
    "POST /v1/map/places",
    "POST /v1/images/export",
    "POST /v1/images/records",
    "POST /study/*/items",
    "POST /study/*/answers",  # of the caller alone
    "POST /usage",
    "POST /monailabel/activelearning/*",
    # What changes the caller's own cases and cohorts only.
    "POST /v1/cases",
    "PATCH /v1/cases/*",
    "DELETE /v1/cases/*",
    "POST /v1/cohorts",
    "PATCH /v1/cohorts/*",
    "DELETE /v1/cohorts/*",
    "POST /v1/cohorts/*/batch",
    "POST /v1/cohorts/*/judgements",
    "POST /v1/cohorts/*/undo",
)


def test_what_changes_something_asks_for_more_than_search() -> None:
    for address, entry in RULES.items():
        if not address.startswith("GET ") and entry.need in (Scope.search, OpenTo.any_token):
            assert address in SEARCHES, address


def test_address_without_entry_is_refused_to_all(closed: Flask, tokens: TokenStore) -> None:
    closed.add_url_rule("/v1/forgotten", "forgotten", lambda: "secret")
    client = closed.test_client()
    problem(client.get("/v1/forgotten", headers=bearer(tokens, Scope.admin)), 403)
    problem(client.get("/v1/forgotten"), 403)


def test_strangers_get_nowhere(closed: Flask, stranger: FlaskClient) -> None:
    tried = 0
    for rule in closed.url_map.iter_rules():
        path = re.sub(r"<[^>]*>", "x", rule.rule)
        for method in (rule.methods or set()) - {"OPTIONS"}:
            entry = scopes.rule_of_address(closed, method, rule.rule)
            if entry and entry.need is not OpenTo.anyone:
                answer = stranger.open(path, method=method)
                assert answer.status_code == 401, (method, path)
                assert answer.headers["WWW-Authenticate"] == 'Bearer realm="cbir"'
                tried += 1
    assert tried > 5
    for path in ("/none", "/v1/none", "/V1/search", "/v1/search/"):
        problem(stranger.get(path), 401)


def test_each_scope_opens_its_own_addresses(closed: Flask, tokens: TokenStore) -> None:
    client = closed.test_client()
    headers = {scope: bearer(tokens, scope) for scope in Scope}
    for rule in closed.url_map.iter_rules():
        path = re.sub(r"<[^>]*>", "x", rule.rule)
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            entry = scopes.rule_of_address(closed, method, rule.rule)
            if not entry or not isinstance(entry.need, Scope):
                continue
            for scope in set(Scope) - {entry.need, Scope.admin}:
                said = problem(client.open(path, method=method, headers=headers[scope]), 403)
                assert f"scope {entry.need}" in said
            if method == "GET":
                for scope in (entry.need, Scope.admin):
                    answer = client.get(path, headers=headers[scope])
                    assert answer.status_code != 401, path
                    if (
                        answer.status_code == 403
                    ):  # for a study that there is not, which tells nothing of others
                        assert path.startswith("/annotate/")
                        assert "scope" not in answer.text


def test_annotating_is_for_labels_alone(writable: Path, tokens: TokenStore, ids: list[str]) -> None:
    app = create_app(writable, settings.load(require_tokens=True, state_folder=tokens.file.parent))
    client, path = app.test_client(), f"/v1/images/{ids[0]}"
    headers = bearer(tokens, Scope.annotate)
    changed = client.patch(path, json={"labels": {"label": "knee"}}, headers=headers)
    assert changed.status_code == 200, changed.text
    assert changed.json["labels"]["label"] == "knee"
    for method, other in (("DELETE", path), ("GET", path), ("POST", "/v1/images"), ("POST", "/v1/search")):
        problem(client.open(other, method=method, headers=headers), 403)
    for scope in (Scope.search, Scope.ingest):
        said = problem(client.patch(path, json={"labels": {}}, headers=bearer(tokens, scope)), 403)
        assert "scope annotate" in said


def test_health_is_open(stranger: FlaskClient) -> None:
    for path in ("/healthz", "/readyz"):
        assert stranger.get(path).status_code == 200


def test_search_with_a_token(closed: Flask, tokens: TokenStore, ids: list[str]) -> None:
    client = closed.test_client()
    for scheme in ("Bearer", "bearer"):
        text = tokens.create([Scope.search])[1]
        answer = client.post(
            "/v1/search", json={"image_id": ids[0]}, headers={"Authorization": f"{scheme} {text}"}
        )
        assert answer.status_code == 200
        assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Bearer cbir_0_0",
        "Bearer \xff\xfe",
        "Basic Y2JpcjpjYmly",
        "",
        "Bearer " + "a" * 5000,
    ],
)
def test_what_is_no_token(stranger: FlaskClient, ids: list[str], header: str) -> None:
    answer = stranger.get(f"/v1/images/{ids[0]}", headers={"Authorization": header})
    problem(answer, 401)
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_token_elsewhere_than_in_the_header_is_not_one(
    stranger: FlaskClient, tokens: TokenStore, ids: list[str]
) -> None:
    text = tokens.create([Scope.search])[1]
    problem(stranger.get(f"/v1/images/{ids[0]}?token={text}&access_token={text}"), 401)
    problem(stranger.post("/v1/search", data={"token": text, "access_token": text}), 401)


def test_revoked_at_once(closed: Flask, tokens: TokenStore, ids: list[str]) -> None:
    client, path = closed.test_client(), f"/v1/images/{ids[0]}"
    token, text = tokens.create([Scope.search])
    headers = {"Authorization": f"Bearer {text}"}
    assert client.get(path, headers=headers).status_code == 200
    TokenStore(tokens.file.parent).revoke(token.token_id)  # as another process does
    answer = client.get(path, headers=headers)
    assert "revoked" in problem(answer, 401)
    assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]


def test_expired(closed: Flask, tokens: TokenStore, ids: list[str]) -> None:
    text = tokens.create([Scope.search], datetime.now(UTC) + timedelta(milliseconds=500))[1]
    client, headers = closed.test_client(), {"Authorization": f"Bearer {text}"}
    assert client.get(f"/v1/images/{ids[0]}", headers=headers).status_code == 200
    time.sleep(0.6)
    assert "expired" in problem(client.get(f"/v1/images/{ids[0]}", headers=headers), 401)


def test_damaged_tokens_close_the_door(closed: Flask, tokens: TokenStore, ids: list[str]) -> None:
    headers = bearer(tokens, Scope.admin)
    tokens.file.write_text("[")
    client = closed.test_client()
    problem(client.get(f"/v1/images/{ids[0]}", headers=headers), 503)
    assert client.get("/healthz").status_code == 200
    tokens.file.unlink()  # which is no sign that there never were any
    problem(client.get(f"/v1/images/{ids[0]}", headers=headers), 503)


@pytest.mark.slow
def test_too_many_wrong_tokens(indexed: Path, tokens: TokenStore, ids: list[str]) -> None:
    in_force = settings.load(
        require_tokens=True, state_folder=tokens.file.parent, failed_attempts=3, failed_attempts_seconds=2
    )
    client, path = create_app(indexed, in_force).test_client(), f"/v1/images/{ids[0]}"
    good = bearer(tokens, Scope.search)
    for _ in range(3):
        problem(client.get(path, headers={"Authorization": "Bearer x"}), 401)
    for headers in ({"Authorization": "Bearer x"}, good):  # else the right one could still be found
        answer = client.get(path, headers=headers)
        assert "wrong tokens" in problem(answer, 429)
        assert 1 <= int(answer.headers["Retry-After"]) <= 2
    assert client.post("/login", data={"token": "x"}).status_code == 429
    assert client.get(path, headers=good, environ_base={"REMOTE_ADDR": "127.0.0.2"}).status_code == 200
    assert client.get("/healthz").status_code == 200
    time.sleep(2.1)
    assert client.get(path, headers=good).status_code == 200


def test_ended_tokens_shut_nobody_out(closed: Flask, tokens: TokenStore, ids: list[str]) -> None:
    token, text = tokens.create([Scope.search])
    tokens.revoke(token.token_id)
    client = closed.test_client()
    for _ in range(50):
        problem(client.get("/", headers={"Authorization": f"Bearer {text}"}), 401)
    assert client.get(f"/v1/images/{ids[0]}", headers=bearer(tokens, Scope.search)).status_code == 200


def test_limiter_forgets_and_is_bounded() -> None:
    now = 0.0
    limiter = Limiter(2, 10, clock=lambda: now)
    limiter.record_failure("10.0.0.1")
    now = 9
    assert limiter.seconds_to_wait("10.0.0.1") == 0
    limiter.record_failure("10.0.0.1")
    assert limiter.seconds_to_wait("10.0.0.1") == 10
    assert limiter.seconds_to_wait("10.0.0.2") == 0
    now = 18.5
    assert limiter.seconds_to_wait("10.0.0.1") == 1
    now = 19
    assert limiter.seconds_to_wait("10.0.0.1") == 0
    limiter.record_failure("10.0.0.1")  # the count starts over
    assert limiter.seconds_to_wait("10.0.0.1") == 0
    for number in range(MAX_NETWORKS + 100):
        limiter.record_failure(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(limiter._failures) == MAX_NETWORKS


def test_limiter_counts_an_ipv6_network_as_one_address() -> None:
    limiter = Limiter(2, 10)
    limiter.record_failure("2001:db8::1")
    limiter.record_failure("2001:db8::2:0:0:1")
    assert limiter.seconds_to_wait("2001:db8::ffff") > 0
    assert limiter.seconds_to_wait("2001:db8:0:1::1") == 0
    assert limiter.seconds_to_wait("not an address") == 0


def test_without_tokens_only_this_machine_is_answered(indexed: Path, ids: list[str]) -> None:
    client = create_app(indexed, settings.load()).test_client()
    path = f"/v1/images/{ids[0]}"
    for address, status in (("127.0.0.1", 200), ("::1", 200), ("10.0.0.7", 403), ("::ffff:10.0.0.7", 403)):
        for scheme in ("http", "https"):
            answer = client.get(path, base_url=f"{scheme}://localhost", environ_base={"REMOTE_ADDR": address})
            assert answer.status_code == status, (address, scheme)


def test_other_machines_are_answered_over_https_only(
    closed: Flask, tokens: TokenStore, ids: list[str]
) -> None:
    client, headers = closed.test_client(), bearer(tokens, Scope.search)
    from_elsewhere = {"REMOTE_ADDR": "10.0.0.7"}
    for scheme, status in (("http", 403), ("https", 200)):
        answer = client.get(
            f"/v1/images/{ids[0]}",
            base_url=f"{scheme}://localhost",
            headers=headers,
            environ_base=from_elsewhere,
        )
        assert answer.status_code == status


def test_names_the_service_is_asked_under(indexed: Path, tokens: TokenStore) -> None:
    for options, names in (
        ({"allowed_hosts": "cbir.example.org,Images"}, ["cbir.example.org", "images:8000", "localhost"]),
        ({"host": "192.0.2.1"}, ["192.0.2.1:8000", "127.0.0.1"]),
    ):
        app = create_app(indexed, settings.load(state_folder=tokens.file.parent, **options))
        door: AccessControl = app.extensions[EXTENSION]
        assert door.required
        client = app.test_client()
        for name in names:
            assert client.get("/healthz", headers={"Host": name}).status_code == 200, name
        for name in ("example.org", "cbir.example.org.evil.example", "192.0.2.2", "0.0.0.0"):
            problem(client.get("/healthz", headers={"Host": name}), 421)


@pytest.mark.slow
def test_over_the_network(indexed: Path, tokens: TokenStore, ids: list[str]) -> None:
    token, text = tokens.create([Scope.search])
    headers = {"Authorization": f"Bearer {text}"}
    with serving(indexed, CBIR_REQUIRE_TOKENS="true", CBIR_STATE_FOLDER=str(tokens.file.parent)) as running:
        path = f"{running.address}/v1/images/{ids[0]}"
        problem(httpx.get(path), 401)
        assert httpx.get(path, headers=headers).status_code == 200
        # gunicorn on its own believes this header when it comes from this machine
        forged = {"X-Forwarded-Proto": "https", "Origin": f"https://localhost:{running.port}"}
        problem(httpx.post(f"{running.address}/v1/search", headers=headers | forged), 403)
        assert (
            command("admin", "token", "revoke", token.token_id, CBIR_STATE_FOLDER=tokens.file.parent)[0] == 0
        )
        problem(httpx.get(path, headers=headers), 401)
        assert text not in running.stop()[1]


def test_entries_are_for_scopes_or_reaches() -> None:
    assert all(
        isinstance(entry, AccessRule) and isinstance(entry.need, Scope | OpenTo) for entry in RULES.values()
    )


@pytest.mark.slow
@pytest.mark.usefixtures("spawned_workers")  # a fork server is asked over a socket
def test_nothing_is_fetched_for_a_request(indexed: Path, tokens: TokenStore) -> None:
    """Addresses in a request, wherever they stand, open no connection and resolve no name."""
    believing = settings.load(
        require_tokens=True, trusted_proxies="127.0.0.1", state_folder=tokens.file.parent
    )
    closed = create_app(indexed, believing)
    seen: list[str] = []
    active = True

    def hook(event: str, _: object) -> None:
        if active and event in (
            "socket.connect",
            "socket.getaddrinfo",
            "socket.gethostbyname",
            "urllib.Request",
        ):
            seen.append(event)

    sys.addaudithook(hook)
    client, headers = closed.test_client(), bearer(tokens, Scope.admin)
    address = "http://127.0.0.1:9/image.png"
    forwarded = {"X-Forwarded-Host": "127.0.0.1:9", "Referer": address, "Forwarded": "host=127.0.0.1"}
    for rule in closed.url_map.iter_rules():
        path = re.sub(r"<[^>]*>", "http:%2f%2f127.0.0.1:9%2fx", rule.rule)
        for method in (rule.methods or set()) - {"OPTIONS"}:
            for what in (
                {"json": {"image_id": address, "url": address, "image": address, "folder": address}},
                {"data": {"image": address, "url": address, "next": address}},
                {"data": address.encode(), "content_type": "image/png"},
                {"query_string": {"url": address, "image": address, "next": address}},
            ):
                client.open(path, method=method, headers=headers | forwarded, **what)
    active = False
    assert seen == []
