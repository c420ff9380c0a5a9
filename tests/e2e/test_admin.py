"""The administrators' page in a browser, over a service that needs tokens."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright import sync_api
from playwright.sync_api import expect

from service.access.token_stores import Scope, TokenStore
from service.state.database import StateDatabase
from tests.e2e.test_page_axe import AXE, complaints_dark_and_light
from tests.service.conftest import Served, copy_folder, serving

PATIENCE_MS = 60_000
REFRESH_MS = 60_000  # after which every part of the page asks again


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    return TokenStore(tmp_path_factory.mktemp("admin") / "state")


@pytest.fixture(scope="module")
def admin(tokens: TokenStore) -> str:
    return tokens.create([Scope.admin], name="operator")[1]


@pytest.fixture(scope="module")
def running(
    indexed: Path,
    pictures: list[Path],
    tokens: TokenStore,
    admin: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Served]:
    own = copy_folder(indexed, tmp_path_factory.mktemp("admin") / "own")
    options = {"CBIR_STATE_FOLDER": str(tokens.file.parent), "CBIR_INDEX_ROOTS": str(pictures[0].parent)}
    with serving(own, CBIR_REQUIRE_TOKENS="true", **options) as service:
        yield service


@pytest.fixture
def admin_page(browser: sync_api.Browser, running: Served, admin: str) -> Iterator[sync_api.Page]:
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{running.address}/login?next=/admin")
        page.get_by_label("Token").fill(admin)
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("#collections tr")).to_have_count(1, timeout=PATIENCE_MS)
        yield page


def post(page: sync_api.Page, path: str, body: dict[str, object]) -> sync_api.APIResponse:
    """Send what the page's own scripts could send."""
    csrf = page.locator("meta[name=csrf]").get_attribute("content") or ""
    origin = page.url.split("/admin")[0]
    return page.request.post(f"{origin}{path}", data=body, headers={"X-CSRF-Token": csrf})


def test_a_token_is_created_used_and_revoked(
    admin_page: sync_api.Page, running: Served, tokens: TokenStore
) -> None:
    page = admin_page
    page.get_by_role("button", name="Create a token").click()
    dialog = page.get_by_role("dialog", name="Create a token")
    dialog.get_by_label("Name").fill("reading room")
    dialog.get_by_label("Expires").fill("soon")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("expected a span")
    dialog.get_by_label("Expires").fill("4w")
    dialog.get_by_role("button", name="Create").click()
    shown = page.get_by_role("dialog", name="The token is created")
    text = shown.locator("output").inner_text()
    token = tokens.find(text)
    assert token
    page.context.grant_permissions(["clipboard-write"])
    shown.get_by_role("button", name="Copy").click()
    expect(shown.locator("[role=status]")).to_have_text("Copied.")
    assert (token.name, token.scopes) == ("reading room", (Scope.search,))
    shown.get_by_role("button", name="Close").click()
    expect(page.locator("#created-dialog")).to_have_count(0)  # once closed it is removed
    assert text not in page.content()
    row = page.get_by_role("row").filter(has_text=token.token_id)
    expect(row).to_contain_text("never")
    headers = {"Authorization": f"Bearer {text}"}
    assert page.request.get(f"{running.address}/v1/collection", headers=headers).status == 200
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert tokens.all()[token.token_id].state == "valid"
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_have_count(0)
    assert tokens.all()[token.token_id].state == "revoked"
    page.get_by_label("Show expired and revoked ones").check()
    expect(row).to_contain_text("revoked")


def test_what_was_done_is_no_failure_where_its_list_cannot_be_read(
    admin_page: sync_api.Page, tokens: TokenStore
) -> None:
    page = admin_page
    token, _ = tokens.create([Scope.search], name="short-lived")
    page.reload()
    row = page.locator("#tokens tr").filter(has_text="short-lived")
    row.get_by_role("button", name="Revoke").click()
    page.route("**/v1/admin/tokens", lambda route: route.abort())
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Revoke").click()
    expect(dialog).to_have_count(0)
    assert tokens.all()[token.token_id].state == "revoked"
    expect(page.get_by_role("alert")).to_contain_text("does not respond")


def test_a_token_is_revoked_with_what_it_has_made(
    admin_page: sync_api.Page, tokens: TokenStore, admin: str
) -> None:
    page = admin_page
    first, _ = tokens.create([Scope.admin], name="stolen", made_by="user ann")
    second, _ = tokens.create([Scope.admin], name="second", made_by=f"token {first.token_id}")
    third, _ = tokens.create([Scope.search], name="third", made_by=f"token {second.token_id}")
    page.reload()
    rows = page.locator("#tokens tr")
    expect(rows.filter(has_text="stolen")).to_contain_text("ann")
    expect(rows.filter(has_text="second")).to_contain_text(f"token {first.token_id}")
    dialog, choice = page.get_by_role("dialog"), page.get_by_label("that it or its tokens have made")
    rows.filter(has_text="third").get_by_role("button", name="Revoke").click()
    expect(dialog.get_by_role("checkbox")).to_have_count(0)
    dialog.get_by_role("button", name="Cancel").click()
    rows.filter(has_text="stolen").get_by_role("button", name="Revoke").click()
    expect(dialog).to_contain_text("Also the 2 tokens")
    choice.check()
    dialog.get_by_role("button", name="Cancel").click()
    rows.filter(has_text="stolen").get_by_role("button", name="Revoke").click()
    expect(choice).not_to_be_checked()
    choice.check()
    dialog.get_by_role("button", name="Revoke").click()
    expect(rows.filter(has_text="third")).to_have_count(0)
    ids = [first.token_id, second.token_id, third.token_id, tokens.find(admin).token_id]
    assert [tokens.all()[token_id].state for token_id in ids] == [*["revoked"] * 3, "valid"]


def test_jobs_show_themselves_and_are_cancelled(admin_page: sync_api.Page, pictures: list[Path]) -> None:
    page = admin_page
    folder = {"folder": str(pictures[0].parent), "processes": 1}
    assert post(page, "/v1/jobs", folder).status == 202
    expect(page.locator(".job[data-state=running], .job[data-state=done]").first).to_be_visible(
        timeout=15_000
    )
    expect(page.locator(".job[data-state=done]").first).to_contain_text("indexed", timeout=PATIENCE_MS)
    for _ in range(6):
        assert post(page, "/v1/jobs", folder).status == 202
    page.reload()
    last = page.locator(".job").first  # it waits for the others
    last.get_by_role("button", name="Cancel").click(timeout=15_000)
    shown = last.element_handle()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    expect(last).to_have_attribute("data-state", "cancelled", timeout=15_000)
    assert shown.evaluate("job => job.isConnected"), "a refresh keeps what is shown"
    last.get_by_role("button", name="Try again").click()
    expect(last).not_to_have_attribute("data-state", "cancelled", timeout=PATIENCE_MS)
    expect(last.get_by_role("button", name="Try again")).to_be_hidden()


def test_what_it_shows(admin_page: sync_api.Page, running: Served) -> None:
    page = admin_page
    expect(page.locator("#parts .part[data-tone=good]")).to_have_count(4)
    expect(page.locator("#requests th").first).to_be_visible()
    expect(page.locator("#settings")).to_contain_text("index_roots")
    expect(page.locator("#settings")).not_to_contain_text("max_results")
    page.get_by_label("Show defaults too").check()
    expect(page.locator("#settings")).to_contain_text("max_results")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core")
@pytest.mark.parametrize("width", [390, 1280])
def test_accessible(admin_page: sync_api.Page, width: int) -> None:
    page = admin_page
    page.set_viewport_size({"width": width, "height": 900})
    expect(page.locator("#settings tr").first).to_be_visible()
    found = complaints_dark_and_light(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Create a token").click()
    found += complaints_dark_and_light(page)
    assert found == []


def test_revoked_login_is_asked_for_again(
    admin_page: sync_api.Page, tokens: TokenStore, running: Served
) -> None:
    page = admin_page
    page.clock.install()
    page.reload()
    expect(page.locator("#tokens tr").first).to_be_visible()
    page.context.clear_cookies()  # as after twelve hours
    page.clock.fast_forward(REFRESH_MS)
    dialog = page.get_by_role("dialog", name="You are no longer logged in")
    expect(dialog).to_be_visible(timeout=15_000)
    token, text = tokens.create([Scope.admin])
    dialog.get_by_label("Token").fill(text)
    dialog.get_by_role("button", name="Log in").click()
    expect(dialog).to_have_count(0)
    page.clock.fast_forward(REFRESH_MS)
    expect(page.locator("#tokens")).to_contain_text(token.token_id, timeout=PATIENCE_MS)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_killed_service_remembers_logins_and_jobs(
    indexed: Path, tmp_path: Path, pictures: list[Path], browser: sync_api.Browser
) -> None:
    state, own = tmp_path / "state", copy_folder(indexed, tmp_path / "own")
    text = TokenStore(state).create([Scope.admin])[1]
    environment = {
        "CBIR_REQUIRE_TOKENS": "true",
        "CBIR_STATE_FOLDER": str(state),
        "CBIR_INDEX_ROOTS": str(pictures[0].parent),
    }
    with browser.new_context() as context, serving(own, **environment) as first:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{first.address}/login?next=/admin")
        page.get_by_label("Token").fill(text)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/admin")
        for _ in range(2):
            assert (
                post(page, "/v1/jobs", {"folder": str(pictures[0].parent), "duplicates": True}).status == 202
            )
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait(timeout=300)
        with StateDatabase(state).writing() as connection:  # as after half a minute
            connection.exec_driver_sql("UPDATE jobs SET claimable_from = 0 WHERE ended IS NULL")
        with serving(own, **environment) as second:
            page.goto(f"{second.address}/admin")
            expect(page.locator(".job")).to_have_count(2, timeout=PATIENCE_MS)
            expect(page.locator(".job[data-state=done]")).to_have_count(2, timeout=PATIENCE_MS)
