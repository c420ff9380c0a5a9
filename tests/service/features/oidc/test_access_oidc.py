"""Logins by the hospital's identity: an OpenID Connect provider."""

import base64
import html
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from flask import Flask
from flask.testing import FlaskClient
from joserfc.jwk import ECKey, OctKey, RSAKey

from cbir import settings
from service.access.security import check_startup, tokens_required
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from tests.service.conftest import problem
from tests.service.identity_provider import CLIENT, GROUPS, SECRET, Provider, running

HTML = {"Accept": "text/html"}


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running() as provider:
        yield provider


@pytest.fixture
def app(indexed: Path, state: Path, provider: Provider, tmp_path: Path) -> Flask:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    active = settings.load(
        state_folder=state,
        oidc_issuer=provider.issuer,
        oidc_client_id=CLIENT,
        oidc_client_secret_file=tmp_path / "secret",
        groups=GROUPS,
    )
    check_startup(active)
    assert tokens_required(active)
    return create_app(indexed, active)


def begin(client: FlaskClient, base: str = "http://localhost", page: str = "/?k=7") -> str:
    """Follow the link on the login page to the provider; the address that it sends the browser back to."""
    shown = client.get("/login", query_string={"next": page}, base_url=base).text
    link = re.search(r'href="(/login/oidc[^"]*)"', shown)
    assert link
    to_provider = client.get(link[1].replace("&amp;", "&"), base_url=base)
    assert to_provider.status_code == 303, to_provider.text
    back = httpx.get(to_provider.headers["Location"])
    assert back.status_code == 302, back.text
    return str(back.headers["Location"])


def log_in(client: FlaskClient, base: str = "http://localhost") -> Any:
    return client.get(begin(client, base), headers={"Sec-Fetch-Site": "cross-site"})


def test_a_login(app: Flask, state: Path) -> None:
    client = app.test_client()
    answer = log_in(client)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Refresh"] == "0; url=/?k=7"
    page = client.get("/?k=7", headers=HTML)
    assert page.status_code == 200
    assert 'name="csrf"' in page.text
    items = client.get("/v1/images?limit=1000").json["items"]
    assert {item["labels"]["label"] for item in items} == {"even"}
    assert "jdoe" in client.get("/login").text
    problem(client.get("/v1/collection/history"), 403)
    written = [json.loads(line) for line in (state / "audit.jsonl").read_text().splitlines()]
    assert [(line["user"], line["action"], line["status"]) for line in written[:2]] == [
        ("jdoe", "login", 200),
        ("jdoe", "list", 200),
    ]
    token = re.search(r'name="csrf" content="([^"]+)"', page.text)
    assert token
    problem(client.post("/v1/search", json={"image_id": items[0]["image_id"]}), 403)
    sent = {"X-CSRF-Token": token[1]}
    assert client.post("/v1/search", json={"image_id": items[0]["image_id"]}, headers=sent).status_code == 200
    assert client.post("/logout", headers=sent).status_code == 303
    problem(client.get("/v1/images"), 401)


def test_a_login_for_a_page_of_any_script(app: Flask) -> None:
    client = app.test_client()
    answer = client.get(begin(client, page="/?where=label=白"))
    assert answer.status_code == 200
    assert answer.headers["Refresh"] == "0; url=/?where=label=%E7%99%BD"
    assert client.get("/v1/images").status_code == 200


def test_the_request_to_the_provider(app: Flask, provider: Provider) -> None:
    client = app.test_client()
    sent = client.get("/login/oidc", base_url="https://localhost")
    address = urlsplit(sent.headers["Location"])
    query = {name: values[0] for name, values in parse_qs(address.query).items()}
    assert f"{address.scheme}://{address.netloc}{address.path}" == f"{provider.issuer}/authorize"
    assert (query["response_type"], query["client_id"], query["scope"]) == ("code", CLIENT, "openid profile")
    assert (query["code_challenge_method"], len(query["code_challenge"])) == ("S256", 43)
    assert query["redirect_uri"] == "https://localhost/login/oidc/callback"
    assert len(query["state"]) > 40
    assert len(query["nonce"]) > 40
    cookie = sent.headers["Set-Cookie"]
    assert cookie.startswith("__Host-cbir-login=")
    for attribute in ("Secure", "HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=600"):
        assert attribute in cookie
    again = parse_qs(urlsplit(client.get("/login/oidc").headers["Location"]).query)
    assert again["state"] != [query["state"]]
    assert again["nonce"] != [query["nonce"]]
    session = log_in(client, "https://localhost").headers.getlist("Set-Cookie")
    assert any("__Host-cbir=" in line and "SameSite=Strict" in line and "Secure" in line for line in session)


def no_login(client: FlaskClient, answer: Any, status: int) -> None:
    assert answer.status_code == status, answer.text
    problem(client.get("/v1/images"), 401)


def test_another_browser_or_state(app: Flask, provider: Provider) -> None:
    """Nobody can be logged in as the attacker, by a link that ends a login begun elsewhere."""
    attacker, victim = app.test_client(), app.test_client()
    address = begin(attacker)
    no_login(victim, victim.get(address), 400)
    victim.get("/login/oidc")
    no_login(victim, victim.get(address), 400)
    client = app.test_client()
    address = begin(client)
    no_login(client, client.get(re.sub("state=[^&]+", "state=x", address)), 400)
    no_login(client, client.get(address), 400)
    assert "/realm/token" not in provider.asked
    client = app.test_client()
    address = begin(client)
    assert client.get(address).status_code == 200
    assert client.get(address).status_code == 400, "a code is used once"


@pytest.mark.parametrize(
    "overrides",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "another-client"},
        {"aud": ["another-client"]},
        {"aud": None},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"nonce": "of another login"},
        {"nonce": None},
        {"iat": None},
        {"sub": None},
        {"aud": [CLIENT, "other"], "azp": "other"},
        {"preferred_username": None},
        {"preferred_username": ["jdoe"]},
        {"groups": {"radiology": True}},
    ],
)
def test_claims_that_are_refused(app: Flask, provider: Provider, overrides: dict[str, Any]) -> None:
    provider.overrides = overrides
    client = app.test_client()
    no_login(client, log_in(client), 401)


@pytest.mark.parametrize("groups", [[], ["nobody"], [1, None], "student"])
def test_users_in_no_group(app: Flask, provider: Provider, groups: Any) -> None:
    provider.overrides = {"groups": groups}
    client = app.test_client()
    no_login(client, log_in(client), 403)


def test_signatures_that_are_refused(app: Flask, provider: Provider) -> None:
    for key, header in (
        (RSAKey.generate_key(2048, {"kid": "first"}), {"alg": "RS256"}),
        (RSAKey.generate_key(2048, {"kid": "unknown"}), {"alg": "RS256"}),
        (OctKey.import_key(b"x" * 32, {"kid": "first"}), {"alg": "HS256"}),
    ):
        provider.signing, provider.header = key, header
        client = app.test_client()
        no_login(client, log_in(client), 401)


def test_an_unsigned_token(app: Flask, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsigned(nonce: str) -> str:
        now = int(time.time())
        claims = {
            "iss": provider.issuer,
            "sub": "1",
            "aud": CLIENT,
            "exp": now + 99,
            "iat": now,
            "nonce": nonce,
        }
        parts = ({"alg": "none"}, claims | provider.claims)
        return (
            ".".join(base64.urlsafe_b64encode(json.dumps(p).encode()).rstrip(b"=").decode() for p in parts)
            + "."
        )

    monkeypatch.setattr(provider, "id_token", unsigned)
    client = app.test_client()
    no_login(client, log_in(client), 401)


def test_new_keys_of_the_provider(app: Flask, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    assert log_in(app.test_client()).status_code == 200
    provider.keys = [RSAKey.generate_key(2048, {"kid": "second"})]
    assert log_in(app.test_client()).status_code == 200
    provider.keys = [RSAKey.generate_key(2048, {"kid": "third"})]
    assert log_in(app.test_client()).status_code == 401
    monkeypatch.setattr("service.features.oidc.oidc_client.KEYS_SECONDS", 0)
    assert log_in(app.test_client()).status_code == 200


def test_a_provider_that_is_down_or_another(
    app: Flask, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.metadata = {"token_endpoint": "http://evil.example/token"}
    assert app.test_client().get("/login/oidc").status_code == 502
    provider.metadata = {"issuer": "https://evil.example"}
    assert app.test_client().get("/login/oidc").status_code == 502
    provider.metadata = {"x": "x" * 2**21}
    answer = app.test_client().get("/login/oidc")
    assert answer.status_code == 502
    assert "Traceback" not in answer.text
    provider.metadata = {}
    asked = len(provider.asked)
    assert app.test_client().get("/login/oidc").status_code == 502
    assert len(provider.asked) == asked, "a provider that failed is left alone for a while"
    monkeypatch.setattr(app.extensions["cbir-oidc"], "_down_until", 0.0)
    assert log_in(app.test_client()).status_code == 200


@pytest.mark.parametrize("damage", [{"unsent": 9}, {"coding": "gzip"}])
def test_an_answer_of_the_provider_that_cannot_be_read(
    app: Flask, provider: Provider, damage: dict[str, Any]
) -> None:
    for name, value in damage.items():
        setattr(provider, name, value)
    assert app.test_client().get("/login/oidc").status_code == 502


def test_an_error_of_the_provider(app: Flask, provider: Provider) -> None:
    client = app.test_client()
    address = re.sub("code=[^&]+", "error=access_denied", begin(client))
    answer = client.get(address)
    no_login(client, answer, 401)
    assert "access_denied" in answer.text
    address = re.sub("code=[^&]+", "error=%3Cscript%3E", begin(client))
    assert "script>" not in client.get(address).text.replace("</script>", "").replace("<script", "")


def test_refused_logins_lock_no_one_out(app: Flask, provider: Provider) -> None:
    limit = settings.load().failed_attempts
    for overrides in ({"aud": "another-client"}, {"iat": int(time.time()) + 90}):
        provider.overrides = overrides
        for _ in range(limit):
            assert log_in(app.test_client()).status_code == 401
    client = app.test_client()
    for _ in range(limit):
        assert client.get(re.sub("code=[^&]+", "code=guessed", begin(client))).status_code == 401
    provider.overrides = {}
    assert log_in(app.test_client()).status_code == 200


def test_wrong_tokens_lock_out_no_login(app: Flask) -> None:
    client = app.test_client()
    wrong = {"Authorization": "Bearer wrong"}
    for _ in range(settings.load().failed_attempts):
        problem(client.get("/v1/images", headers=wrong), 401)
    problem(client.get("/v1/images", headers=wrong), 429)
    assert log_in(client).status_code == 200
    assert client.get("/v1/images").status_code == 200


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"iss": "https://evil.example"}, "names another issuer than oidc_issuer (claim iss)"),
        ({"aud": ["another-client"]}, "is for another client than oidc_client_id (claim aud)"),
        (
            {"aud": [CLIENT, "other"], "azp": "other"},
            "was issued to another client than oidc_client_id (claim azp)",
        ),
        ({"nonce": "of another login"}, "belongs to another login (claim nonce)"),
        ({"at_hash": "wrong"}, "does not belong to the access token (claim at_hash)"),
        ({"at_hash": 5}, "does not belong to the access token (claim at_hash)"),
        ({"exp": -5}, "has a wrong claim exp"),
        ({"sub": None}, "has no claim sub"),
        ({"exp": None}, "has no claim exp"),
        ({"exp": "soon"}, "has a wrong claim exp"),
        ({"iat": 10**400}, "has a wrong claim iat"),
        ({"nbf": [1]}, "has a wrong claim nbf"),
    ],
)
def test_the_wrong_claim_is_named(
    app: Flask, provider: Provider, caplog: pytest.LogCaptureFixture, overrides: dict[str, Any], reason: str
) -> None:
    provider.overrides = overrides
    answer = log_in(app.test_client())
    assert answer.status_code == 401
    assert f"the ID token {reason}" in html.unescape(answer.text)
    assert reason in caplog.text
    assert "evil.example" not in answer.text + caplog.text


@pytest.mark.parametrize(
    ("seconds", "reason"),
    [
        (50, None),
        (90, "is of the future (claim iat): the provider's clock is 90 seconds ahead of this machine's"),
        (-400, "expired 100 seconds ago (claim exp): the provider's clock is 400 seconds behind this"),
        (-300, None),
    ],
)
def test_the_difference_of_the_clocks(
    app: Flask, provider: Provider, seconds: int, reason: str | None
) -> None:
    now = time.time()
    provider.overrides = {"iat": int(now) + seconds, "exp": int(now) + seconds + 300}
    answer = log_in(app.test_client())
    took = time.time() - now
    if reason is None:
        assert answer.status_code == 200
    else:
        assert answer.status_code == 401
        text = html.unescape(answer.text)
        assert re.sub(r"\d+", "N", reason) in re.sub(r"\d+", "N", text)
        measured = int(re.search(r"clock is (\d+) seconds", text)[1])  # type: ignore[index]
        assert abs(measured - abs(seconds)) <= 1 + took
        assert "set both clocks" in text


def test_a_late_token_by_equal_clocks(app: Flask, provider: Provider) -> None:
    provider.overrides = {"exp": int(time.time()) - 100}
    text = html.unescape(log_in(app.test_client()).text)
    assert "seconds ago (claim exp)." in text
    assert "clock" not in text.partition("(claim exp)")[2]


@pytest.mark.parametrize("key", [RSAKey.generate_key(2048), ECKey.generate_key("P-256")], ids=["RSA", "EC"])
def test_a_new_key_with_the_old_name(app: Flask, provider: Provider, key: RSAKey | ECKey) -> None:
    assert log_in(app.test_client()).status_code == 200
    provider.keys = [type(key).import_key(key.as_dict(private=True) | {"kid": "first"})]
    provider.header = {"alg": "ES256" if isinstance(key, ECKey) else "RS256"}
    assert log_in(app.test_client()).status_code == 200
    asked = provider.asked.count("/realm/keys")
    provider.signing = RSAKey.generate_key(2048, {"kid": "first"})
    provider.header = {"alg": "RS256"}
    for _ in range(3):
        answer = log_in(app.test_client())
        assert answer.status_code == 401
        assert "is not signed by a key that the provider publishes" in answer.text
    assert provider.asked.count("/realm/keys") == asked, (
        "keys are fetched every 10 seconds at most because of a signature"
    )


@pytest.mark.parametrize(
    "other",
    [{}, {"kty": "RSA"}, {"kty": "AKP", "pub": "aaaa"}, {"kty": "OKP", "crv": "Foo", "x": "aa"}, "text"],
)
def test_published_keys_that_cannot_be_read(
    app: Flask, provider: Provider, monkeypatch: pytest.MonkeyPatch, other: Any
) -> None:
    read = [key.as_dict(private=False) for key in provider.keys]
    provider.published = {"keys": [other, *read]}
    assert log_in(app.test_client()).status_code == 200
    monkeypatch.setattr(app.extensions["cbir-oidc"], "_keys", None)
    nothing_read: list[dict[str, Any]] = [{"keys": [other]}, {"keys": other}, {"keys": []}, {}]
    for published in nothing_read:
        provider.published = published
        answer = log_in(app.test_client())
        assert answer.status_code == 401
        assert "the provider publishes no key that can be read (jwks_uri)" in answer.text


def test_keys_that_could_not_be_fetched_are_fetched_at_the_next_login(app: Flask, provider: Provider) -> None:
    assert log_in(app.test_client()).status_code == 200
    provider.keys = [RSAKey.generate_key(2048, {"kid": "first"})]
    provider.published = {}  # as while it starts
    assert log_in(app.test_client()).status_code == 401
    provider.published = None
    assert log_in(app.test_client()).status_code == 200


@pytest.mark.parametrize("name", ["", " ", "a" * 101, "a\nb"])
def test_a_name_that_cannot_be_logged_is_said_to_be_one(app: Flask, provider: Provider, name: str) -> None:
    provider.overrides = {"preferred_username": name}
    client = app.test_client()
    answer = log_in(client)
    no_login(client, answer, 401)
    assert "the claim preferred_username (oidc_user_claim) is empty, longer than 100 char" in answer.text


def test_failures_of_the_provider_do_not_count(
    indexed: Path, state: Path, provider: Provider, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text(SECRET)
    app = create_app(
        indexed,
        settings.load(
            state_folder=state, oidc_issuer=provider.issuer, oidc_client_id=CLIENT, failed_attempts=2,
            oidc_client_secret_file=tmp_path / "secret", groups=GROUPS,
        ),
    )  # fmt: skip
    provider.failing = True
    assert [log_in(app.test_client()).status_code for _ in range(4)] == [401] * 4
    provider.failing = False
    provider.overrides = {"preferred_username": None}  # a mistake in the settings, not of the user
    assert [log_in(app.test_client()).status_code for _ in range(4)] == [401] * 4
    provider.overrides = {}
    client = app.test_client()
    assert log_in(client).status_code == 200


def test_without_a_provider_there_is_no_such_login(indexed: Path, state: Path) -> None:
    TokenStore(state).create([Scope.search])
    client = create_app(indexed, settings.load(state_folder=state, require_tokens=True)).test_client()
    assert "oidc" not in client.get("/login").text
    problem(client.get("/login/oidc"), 404)
    problem(client.get("/login/oidc/callback?code=x&state=y"), 404)
