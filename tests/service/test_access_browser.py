"""Logging in with a real browser: what it sends by itself is what the cookie and the form rest on."""

import re
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright import sync_api
from playwright.sync_api import expect

from service.access.token_stores import Scope, TokenStore
from tests.chromium import CHROMIUM, MISSING
from tests.service.conftest import Served, serving

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=MISSING)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    found = TokenStore(tmp_path_factory.mktemp("state"))
    found.create([Scope.admin])
    return found


@pytest.fixture(scope="module")
def served(indexed: Path, tokens: TokenStore) -> Iterator[Served]:
    state = str(tokens.file.parent)
    with serving(indexed, CBIR_REQUIRE_TOKENS="true", CBIR_STATE_FOLDER=state) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def page(served: Served, browser: sync_api.Browser) -> Iterator[sync_api.Page]:
    with browser.new_context() as context:  # without a login
        opened = context.new_page()
        opened.set_default_timeout(60_000)
        yield opened


def address(served: Served) -> str:
    """The service as another site than 127.0.0.1: a browser goes by names."""
    return f"http://localhost:{served.port}"


def log_in(page: sync_api.Page, tokens: TokenStore) -> str:
    """Fill in the form with a new token; its id."""
    token, text = tokens.create([Scope.search], name="reading room")
    page.get_by_label("Token").fill(text)
    page.get_by_role("button", name="Log in").click()
    return token.token_id


@pytest.mark.slow
def test_log_in_search_and_log_out(
    page: sync_api.Page, served: Served, tokens: TokenStore, ids: list[str]
) -> None:
    page.goto(f"{address(served)}/?image={ids[0]}")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.get_by_label("Token").fill("cbir_wrong_token")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown")
    token_id = log_in(page, tokens)
    expect(page).to_have_url(re.compile(rf"/\?image={ids[0]}"))  # where it was going
    expect(page.locator("#columns .card").first).to_be_visible()  # the search sent what it must
    assert page.evaluate("document.cookie") == ""  # no script can read it
    page.locator("[popovertarget=more]").click()
    page.get_by_role("link", name="Account").click()
    expect(page.get_by_text(token_id)).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.goto(address(served))
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


@pytest.mark.slow
def test_revoked_while_the_page_is_open(
    page: sync_api.Page, served: Served, tokens: TokenStore, ids: list[str]
) -> None:
    page.goto(address(served))
    token_id = log_in(page, tokens)
    expect(page.locator(".examples .card").first).to_be_visible()
    page.wait_for_load_state()  # before its scripts have run, the card is a plain link
    tokens.revoke(token_id)
    page.locator(".examples .card").first.click()
    dialog = page.get_by_role("dialog", name="You are no longer logged in")
    dialog.get_by_label("Token").fill("cbir_wrong_token")
    dialog.get_by_role("button", name="Log in").click()
    expect(dialog.get_by_role("alert")).to_contain_text("unknown")
    log_in(page, tokens)
    expect(page.locator("#columns .card").first).to_be_visible()  # with the new login
    expect(dialog).to_have_count(0)


@pytest.mark.slow
def test_ended_session_keeps_the_uploaded_image(
    page: sync_api.Page, served: Served, tokens: TokenStore, pictures: list[Path]
) -> None:
    page.goto(address(served))
    token_id = log_in(page, tokens)
    expect(page.locator(".examples .card").first).to_be_visible()
    page.wait_for_load_state()  # its scripts have run
    page.locator("#file").set_input_files(pictures[0])
    first = page.locator("#columns .card[data-image]").first  # placeholders have no image
    expect(first).to_be_visible()
    before = first.get_attribute("data-image")
    page.wait_for_load_state("networkidle")  # else a late request opens the dialog before the next search
    tokens.revoke(token_id)
    page.keyboard.press("e")  # expert
    page.locator("#k").fill("3")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="You are no longer logged in")
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert").filter(has_text="no longer logged in")).to_be_visible()
    page.get_by_role("button", name="Try again").click()
    log_in(page, tokens)
    expect(page.locator("#columns .card[data-image]")).to_have_count(3, timeout=60_000)
    assert first.get_attribute("data-image") == before


@pytest.mark.slow
def test_login_in_another_tab(
    page: sync_api.Page, served: Served, tokens: TokenStore, ids: list[str]
) -> None:
    page.goto(f"{address(served)}/?image={ids[0]}")
    token_id = log_in(page, tokens)
    expect(page.locator("#columns .card[data-image]").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    tokens.revoke(token_id)
    page.keyboard.press("e")  # expert
    page.locator("#k").fill("3")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="You are no longer logged in")).to_be_visible()
    other = page.context.new_page()
    other.goto(f"{address(served)}/login?next=/login/done")
    log_in(other, tokens)
    expect(page.locator("#columns .card[data-image]")).to_have_count(3, timeout=60_000)
    again = page.context.new_page()
    again.goto(f"{address(served)}/login")
    again.get_by_role("button", name="Log out").click()
    log_in(again, tokens)  # the first page has the value of the login before
    expect(again.locator(".examples .card").first).to_be_visible()
    page.bring_to_front()
    page.locator("#k").fill("4")
    page.keyboard.press("Enter")
    expect(page.locator("#columns .card[data-image]")).to_have_count(4, timeout=60_000)


@pytest.mark.slow
def test_link_on_another_site(
    page: sync_api.Page, served: Served, tokens: TokenStore, ids: list[str], tmp_path: Path
) -> None:
    (tmp_path / "index.html").write_text(
        f'<a href="{address(served)}/?image={ids[0]}">See this case</a>'
        f'<form method="post" action="{address(served)}/logout"><button>Win</button></form>'
    )
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as other:
        Thread(target=other.serve_forever, daemon=True).start()
        try:
            elsewhere = f"http://127.0.0.1:{other.server_port}/"
            page.goto(elsewhere)
            page.get_by_role("link").click()
            expect(
                page.get_by_role("heading", name="Log in")
            ).to_be_visible()  # it asks once, and not in circles
            log_in(page, tokens)
            page.goto(elsewhere)
            page.get_by_role("link").click()
            expect(page.locator("#columns .card").first).to_be_visible(timeout=60_000)
            expect(page).to_have_url(re.compile(rf"/\?image={ids[0]}"))
            page.goto(elsewhere)
            with page.expect_response(re.compile("/logout")) as answer:
                page.get_by_role("button").click()
            assert answer.value.status == 403
            page.goto(address(served))
            page.get_by_role("button", name="Menu").click()
            expect(page.get_by_role("link", name="Account")).to_be_visible()
        finally:
            other.shutdown()
