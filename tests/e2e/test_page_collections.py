"""The page over several collections."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright import sync_api

from cbir.evaluation.datasets.phantoms import write_phantoms
from tests.e2e.browsing import SETTLED, choose, ids, until
from tests.indexer.commands import call
from tests.service.conftest import Served, serving


@pytest.fixture(scope="module")
def served(indexed: Path, pictures: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Three collections: `few` has the last six pictures, the files of `gone` are no longer there."""
    folder = tmp_path_factory.mktemp("collections")
    many = shutil.copytree(indexed, folder / "many")
    call("index", *pictures[-6:], "--collection", folder / "few", "--jobs", "1")
    write_phantoms(folder / "files", 3, size=64, seed=9)
    call("index", folder / "files", "--collection", folder / "gone", "--jobs", "1")
    shutil.rmtree(folder / "files")
    with serving(many, "--collection", str(folder / "few"), "--collection", str(folder / "gone")) as running:
        yield running


def enter(page: sync_api.Page, name: str) -> None:
    page.get_by_role("combobox", name="Collection").select_option(name)
    until(page, f"document.getElementById('query').dataset.collection === '{name}'")


def asked(page: sync_api.Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def test_the_readers_image_goes_along(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[0])
    page.get_by_role("combobox", name="Filter").select_option("label=odd")
    until(page, "document.querySelectorAll('#columns .card').length === 15")
    enter(page, "few")
    until(page, "document.querySelectorAll('#columns:not([aria-busy]) .card').length === 6")
    assert asked(page) == {"collection": ["few"]}
    assert not page.get_by_role("combobox", name="Filter").is_visible()  # there are no labels
    assert page.locator("#facts dd").first.text_content() == "6"
    sync_api.expect(page.locator(".column img").first).to_have_js_property("complete", True)
    until(page, "[...document.querySelectorAll('.column img')].every(image => image.naturalWidth > 0)")
    page.go_back()
    until(page, "document.getElementById('query').dataset.collection === 'many'")
    until(page, "document.querySelectorAll('#columns:not([aria-busy]) .card').length === 15")
    page.get_by_role("combobox", name="Filter").select_option(
        "label=even"
    )  # it still listens; either value will do
    until(page, "document.querySelectorAll('#columns:not([aria-busy]) .card').length === 20")


def test_an_image_of_a_collection_stays_behind(page: sync_api.Page) -> None:
    page.locator(".examples .card").first.click()
    page.wait_for_selector(f"{SETTLED} .move")
    enter(page, "few")
    page.get_by_role("heading", name="Find images like yours").wait_for()
    assert asked(page) == {"collection": ["few"]}
    assert page.locator(".examples .card").count() == 6
    until(page, "[...document.querySelectorAll('.examples img')].every(image => image.naturalWidth > 0)")


def test_addresses_name_the_collection(page: sync_api.Page, served: Served, tolerated: list[str]) -> None:
    tolerated.append("404")
    enter(page, "few")
    page.locator(".examples .card").nth(1).click()
    page.wait_for_selector(f"{SETTLED} .move")
    shown, address = ids(page), page.url
    assert asked(page)["collection"] == ["few"]
    page.locator(".column .card").first.click()
    until(page, "document.getElementById('right').src.includes('/picture?collection=few')")
    until(page, "document.getElementById('right').naturalWidth > 0")
    page.keyboard.press("i")
    page.locator("#metadata dd").first.wait_for()
    page.keyboard.press("Escape")
    page.goto(address)
    page.wait_for_selector(f"{SETTLED} .move")
    assert ids(page) == shown
    assert page.get_by_role("combobox", name="Collection").input_value() == "few"
    page.goto(f"{served.address}/?collection=nobody")
    page.get_by_role("heading", name="No such collection").wait_for()
    page.get_by_role("link", name="few").click()
    page.get_by_role("heading", name="Find images like yours").wait_for()


def test_a_recent_query_leads_back_to_its_collection(page: sync_api.Page) -> None:
    page.locator(".examples .card").first.click()
    page.wait_for_selector(f"{SETTLED} .move")
    until(page, "document.querySelectorAll('#recent-list li').length === 1")
    found, address = ids(page), page.url
    enter(page, "few")
    page.get_by_role("heading", name="Find images like yours").wait_for()
    page.get_by_role("region", name="Recent queries").get_by_role("button").nth(1).click()
    page.wait_for_url(address)
    page.wait_for_selector(f"{SETTLED} .move")
    assert ids(page) == found


def test_a_collection_that_has_gone(page: sync_api.Page, tolerated: list[str]) -> None:
    tolerated.append("503")
    page.route("**/?collection=few", lambda route: route.fulfill(status=503, body="gone"))
    page.get_by_role("combobox", name="Collection").select_option("few")
    page.get_by_role("alert").wait_for()
    assert page.get_by_role("combobox", name="Collection").input_value() == "many"


def test_pictures_whose_files_are_gone(page: sync_api.Page, served: Served, tolerated: list[str]) -> None:
    tolerated.append("410")
    page.goto(f"{served.address}/?collection=gone")
    page.get_by_text("Picture no longer available").first.wait_for()
    page.locator(".examples .card").first.click()
    page.wait_for_selector(f"{SETTLED} .gone")
