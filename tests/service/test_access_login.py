"""Logging in to the page: the form, the cookie, and requests that other sites' pages might send with it."""

import re
from http.cookies import Morsel, SimpleCookie
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from cbir import settings
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from tests.service.conftest import problem

HTML = {  # Chromium's
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,"
    "application/signed-exchange;v=b3;q=0.7"
}
SECURE = "https://localhost"


@pytest.fixture
def tokens(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "state")


@pytest.fixture
def closed(indexed: Path, tokens: TokenStore) -> Flask:
    return create_app(indexed, settings.load(require_tokens=True, state_folder=tokens.file.parent))


@pytest.fixture
def browser(closed: Flask) -> FlaskClient:
    return closed.test_client()


def log_in(client: FlaskClient, tokens: TokenStore, *scope: Scope, base: str = "http://localhost") -> str:
    """Log in with a new token; its id."""
    token, text = tokens.create(scope or [Scope.search])
    answer = client.post("/login", data={"token": text}, base_url=base)
    assert answer.status_code == 303, answer.text
    return token.token_id


def csrf(client: FlaskClient, base: str = "http://localhost") -> str:
    """What the page says its requests must send along."""
    found = re.search(r'<meta name="csrf" content="([^"]+)">', client.get("/", base_url=base).text)
    assert found
    return found[1]


def cookie(header: str) -> Morsel[str]:
    return next(iter(SimpleCookie(header).values()))


def test_page_leads_to_the_form_and_back(browser: FlaskClient, tokens: TokenStore) -> None:
    sent = browser.get("/?image=abc&k=5", headers=HTML)
    assert sent.status_code == 303
    assert sent.location == "/login?next=/?image%3Dabc%26k%3D5"
    form = browser.get(sent.location).text
    assert 'value="/?image=abc&amp;k=5"' in form
    text = tokens.create([Scope.search])[1]
    answer = browser.post("/login", data={"token": f" {text}\n", "next": "/?image=abc&k=5"})
    assert (answer.status_code, answer.location) == (303, "/?image=abc&k=5")
    assert browser.get("/", headers=HTML).status_code == 200


def test_programs_are_not_led_to_the_form(browser: FlaskClient) -> None:
    problem(browser.get("/", headers={"Accept": "*/*"}), 401)
    problem(browser.get("/"), 401)


@pytest.mark.parametrize(
    "wanted",
    [
        "https://example.org/",
        "//example.org",
        "/\\example.org",
        "/\t/example.org",
        "javascript:alert(1)",
        "example.org",
        "",
        "/\r\nSet-Cookie: a=b",
        " /",
    ],
)
def test_login_leads_to_this_service_only(browser: FlaskClient, tokens: TokenStore, wanted: str) -> None:
    text = tokens.create([Scope.search])[1]
    assert browser.post("/login", data={"token": text, "next": wanted}).location == "/"


@pytest.mark.parametrize(("base", "name"), [("http://localhost", "cbir"), (SECURE, "__Host-cbir")])
def test_cookie(closed: Flask, tokens: TokenStore, base: str, name: str) -> None:
    text = tokens.create([Scope.search])[1]
    sent = closed.test_client().post("/login", data={"token": text}, base_url=base).headers["Set-Cookie"]
    morsel = cookie(sent)
    assert morsel.key == name
    assert morsel["httponly"]
    assert morsel["samesite"] == "Strict"
    assert morsel["path"] == "/"
    assert morsel["domain"] == ""
    assert bool(morsel["secure"]) == base.startswith("https")
    assert text.split("_", 2)[2] not in sent


def test_wrong_tokens_get_no_cookie(browser: FlaskClient, tokens: TokenStore) -> None:
    token, ended = tokens.create([Scope.search])
    tokens.revoke(token.token_id)
    for text in ("", "x", ended):
        answer = browser.post("/login", data={"token": text}, headers=HTML)
        assert answer.status_code == 401
        assert "Set-Cookie" not in answer.headers
        assert 'role="alert"' in answer.text
    assert ended not in answer.text


def test_wrong_tokens_are_counted(browser: FlaskClient, tokens: TokenStore) -> None:
    codes = [browser.post("/login", data={"token": "x"}).status_code for _ in range(12)]
    assert codes == [401] * 10 + [429] * 2
    answer = browser.post("/login", data={"token": tokens.create([Scope.search])[1]})
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) > 1


def test_page_searches_with_what_it_was_given(
    browser: FlaskClient, tokens: TokenStore, ids: list[str]
) -> None:
    log_in(browser, tokens)
    body = {"image_id": ids[0]}
    for headers in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": "x"}, {"X-CSRF-Token": "\xff"}):
        assert "X-CSRF-Token" in problem(browser.post("/v1/search", json=body, headers=headers), 403)
    answer = browser.post("/v1/search", json=body, headers={"X-CSRF-Token": csrf(browser)})
    assert answer.status_code == 200
    assert browser.get(f"/v1/images/{ids[0]}/thumbnail").status_code == 200


def test_another_sessions_csrf_token_does_not_do(closed: Flask, tokens: TokenStore, ids: list[str]) -> None:
    first, second = closed.test_client(), closed.test_client()
    log_in(first, tokens)
    log_in(second, tokens)
    headers = {"X-CSRF-Token": csrf(first)}
    problem(second.post("/v1/search", json={"image_id": ids[0]}, headers=headers), 403)


def test_other_sites_cannot_log_in_or_out(browser: FlaskClient, tokens: TokenStore) -> None:
    text = tokens.create([Scope.search])[1]
    for headers in ({"Origin": "https://example.org"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        answer = browser.post("/login", data={"token": text}, headers=headers)
        problem(answer, 403)
        assert "Set-Cookie" not in answer.headers
    log_in(browser, tokens)
    problem(browser.post("/logout"), 403)
    assert browser.get("/").status_code == 200


def test_own_form_may_say_where_it_comes_from(browser: FlaskClient) -> None:
    """With the policy of all other pages, a browser would send Origin: null with the form."""
    assert browser.get("/login").headers["Referrer-Policy"] == "same-origin"


@pytest.mark.slow
def test_scope_of_the_token_holds_for_the_page(browser: FlaskClient, tokens: TokenStore) -> None:
    log_in(browser, tokens, Scope.ingest)
    assert "scope search" in problem(browser.get("/"), 403)


def test_log_out(closed: Flask, browser: FlaskClient, tokens: TokenStore) -> None:
    log_in(browser, tokens)
    kept = browser.get_cookie("cbir")
    assert kept
    page = browser.get("/login").text
    assert "You are logged in" in page
    field = re.search(r'name="csrf" value="([^"]+)"', page)
    assert field
    answer = browser.post("/logout", data={"csrf": field[1]})
    assert (answer.status_code, answer.location) == (303, "/login")
    assert "storage" in answer.headers["Clear-Site-Data"]
    assert browser.get_cookie("cbir") is None
    thief = closed.test_client()
    thief.set_cookie("cbir", kept.value)
    problem(thief.get("/"), 401)


def test_logging_in_again_ends_the_session_before(
    closed: Flask, browser: FlaskClient, tokens: TokenStore
) -> None:
    log_in(browser, tokens)
    before = browser.get_cookie("cbir")
    assert before
    log_in(browser, tokens)
    after = browser.get_cookie("cbir")
    assert after
    assert after.value != before.value
    other = closed.test_client()
    other.set_cookie("cbir", before.value)
    problem(other.get("/"), 401)


def test_revoking_the_token_ends_the_session(browser: FlaskClient, tokens: TokenStore) -> None:
    token_id = log_in(browser, tokens)
    assert browser.get("/").status_code == 200
    tokens.revoke(token_id)
    problem(browser.get("/"), 401)
    assert browser.get("/", headers=HTML).location.startswith("/login")


def test_cookie_of_http_does_not_do_for_https(browser: FlaskClient, tokens: TokenStore) -> None:
    """A cookie without the prefix may have been set by a page of another port or a neighbouring host."""
    log_in(browser, tokens)
    kept = browser.get_cookie("cbir")
    assert kept
    problem(browser.get("/", base_url=SECURE, headers={"Cookie": f"cbir={kept.value}"}), 401)


def test_token_in_the_header_needs_no_csrf_token(
    browser: FlaskClient, tokens: TokenStore, ids: list[str]
) -> None:
    log_in(browser, tokens)
    headers = {"Authorization": f"Bearer {tokens.create([Scope.search])[1]}"}
    assert browser.post("/v1/search", json={"image_id": ids[0]}, headers=headers).status_code == 200


def test_link_on_another_site(browser: FlaskClient, tokens: TokenStore) -> None:
    """The browser holds a strict cookie back; an empty page of this site's own then asks with it."""
    answer = browser.get("/?image=abc", headers=HTML | {"Sec-Fetch-Site": "cross-site"})
    assert (answer.status_code, answer.text, answer.headers["Refresh"]) == (200, "", "0")
    log_in(browser, tokens)
    answer = browser.get("/", headers=HTML | {"Sec-Fetch-Site": "same-origin"})
    assert answer.status_code == 200
    assert "Refresh" not in answer.headers


def test_names_of_tokens_are_escaped(browser: FlaskClient, tokens: TokenStore) -> None:
    text = tokens.create([Scope.search], name="<script>alert(1)</script>")[1]
    browser.post("/login", data={"token": text})
    page = browser.get("/login?next=%22%3E%3Cscript%3E").text
    assert "&lt;script&gt;" in page
    assert "<script>" not in page


def test_without_tokens_there_is_no_login(indexed: Path) -> None:
    client = create_app(indexed, settings.load()).test_client()
    assert client.get("/login").location == "/"
    assert client.post("/login", data={"token": "x"}).location == "/"
    assert "csrf" not in client.get("/").text
