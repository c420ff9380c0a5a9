"""The page /docs in a browser: Swagger UI under the policy of all pages, which sends requests."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright import sync_api

from cbir.search import example_values as example
from service.access.token_stores import Scope, TokenStore
from service.client import Client
from tests.e2e.browsing import until
from tests.e2e.conftest import PATIENCE_MS
from tests.service.conftest import Served, serving

UNKNOWN_COMPONENT = "JsonSchema_string_binary"  # Swagger UI says so of each list of files, and shows it


@pytest.fixture(scope="module")
def served(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service over a collection that the tests change."""
    copy = Path(shutil.copytree(indexed, tmp_path_factory.mktemp("docs") / "collection"))
    with serving(copy) as running:
        yield running


@pytest.fixture
def page(blank_page: sync_api.Page, served: Served, tolerated: list[str]) -> sync_api.Page:
    tolerated.append(UNKNOWN_COMPONENT)
    blank_page.goto(f"{served.address}/docs")
    blank_page.locator(".opblock").first.wait_for()
    return blank_page


def opened(page: sync_api.Page, name: str) -> sync_api.Locator:
    """Open the form of an operation."""
    operation = page.locator(".opblock", has=page.locator(f".opblock-summary-operation-id:text-is('{name}')"))
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()
    operation.get_by_role("button", name="Execute").wait_for()
    collection = operation.locator("tr[data-param-name=collection] input")
    if collection.count():
        collection.fill("collection")
    return operation


def send(form: sync_api.Locator) -> tuple[str, str]:
    """Send a form; status and text of the answer."""
    clear = form.get_by_role("button", name="Clear")
    if clear.count():
        clear.click()
    form.get_by_role("button", name="Execute").click()
    answer = form.locator(".live-responses-table .response")
    answer.wait_for()
    return (answer.locator(".response-col_status").inner_text().split("\n")[0], answer.inner_text())


def test_shows_every_operation_and_needs_nothing_from_elsewhere(
    blank_page: sync_api.Page, served: Served
) -> None:
    asked: list[str] = []
    blank_page.on("request", lambda request: asked.append(request.url))
    blank_page.goto(f"{served.address}/docs")
    blank_page.locator(".opblock").first.wait_for()
    paths = httpx.get(f"{served.address}/openapi.json").json()["paths"]
    names = [item["operationId"] for methods in paths.values() for item in methods.values()]
    assert sorted(blank_page.locator(".opblock-summary-operation-id").all_inner_texts()) == sorted(names)
    tags = [text.strip() for text in blank_page.locator(".opblock-tag a").all_inner_texts()]
    assert (tags[0], tags[-2:]) == ("search", ["dicomweb", "service"])
    assert [url for url in asked if not url.startswith((served.address, "data:"))] == []


def test_searches_with_an_image_alone(page: sync_api.Page, pictures: list[Path], served: Served) -> None:
    """What may be left out is empty, and the name of a file stays here."""
    form = opened(page, "search")
    row = form.locator("tr[data-property-name=image]")
    row.locator("input[type=file]").set_input_files(pictures[0])
    status, text = send(form)
    assert status == "200"
    curl = form.locator(".curl-command").inner_text()  # as it was sent
    assert re.findall(r"-F '(\w+)=@?(\w+)", curl) == [("image", "image")]
    assert f"'{served.address}/v1/collections/collection/search'" in curl
    assert '"results"' in text


def test_shows_scopes_and_python_lines(page: sync_api.Page) -> None:
    form = opened(page, "image")
    assert f'client.image(\\"{example.IMAGE_ID}\\")' in form.inner_text()
    assert "x-scope" in form.inner_text()


def test_changes_ask_first(
    page: sync_api.Page, served: Served, pictures: list[Path], tolerated: list[str]
) -> None:
    tolerated.extend(["404", "Not sent."])
    with Client(served.address) as client:
        image = next(iter(client.images())).image_id
        form = opened(page, "delete")
        form.locator("tr[data-param-name=image_id] input").fill(image)
        asked: list[str] = []
        page.once("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
        assert "Not sent." in send(form)[1]
        assert asked == [
            f"Delete this image permanently?\n\nDELETE /v1/collections/collection/images/{image}"
        ]
        assert client.image(image).image_id == image
        page.once("dialog", lambda dialog: dialog.accept())
        assert send(form)[0] == "204"
        page.once("dialog", lambda dialog: dialog.accept())
        status, text = send(form)
        assert status == "404"
        assert "/docs/errors#not-found" in text


def test_follows_the_theme(page: sync_api.Page) -> None:
    dark = "document.documentElement.classList.contains('dark-mode')"
    until(page, dark)  # as all pages at first
    page.get_by_role("button", name="Light colours").click()
    until(page, f"!{dark}")
    page.get_by_role("button", name="Dark colours").click()
    until(page, dark)


def test_tokens(browser: sync_api.Browser, indexed: Path, tmp_path: Path) -> None:
    """The login of the browser is used until a token is put in, which is not kept."""
    tokens = TokenStore(tmp_path / "state")
    _, reading = tokens.create([Scope.search])
    _, admin = tokens.create([Scope.admin])
    copy = Path(shutil.copytree(indexed, tmp_path / "collection"))
    with serving(copy, CBIR_REQUIRE_TOKENS="true", CBIR_STATE_FOLDER=str(tokens.file.parent)) as running:
        page = browser.new_context().new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{running.address}/docs")
        page.get_by_label("Token").fill(reading)
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(r":\d+/docs$"))

        search = opened(page, "search")  # a POST, which needs the proof of the page
        search.locator("select.content-type").first.select_option("application/json")
        with Client(running.address, reading) as client:
            image = next(iter(client.images())).image_id
        search.locator(".body-param__text").fill(f'{{"image_id": "{image}"}}')
        assert send(search)[0] == "200"
        history = opened(page, "history")
        assert send(history)[0] == "403"

        page.get_by_role("button", name="Authorize").click()
        page.locator(".auth-container input").fill(admin)
        page.locator(".auth-btn-wrapper").get_by_role("button", name="Apply credentials").click()
        page.locator(".auth-btn-wrapper").get_by_role("button", name="Close").click()
        assert send(history)[0] == "200"
        kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
        assert admin not in kept
        page.context.close()
