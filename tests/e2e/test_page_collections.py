"""The page over several collections."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright import sync_api

from cbir.evaluation.datasets.phantoms import write_phantoms
from tests.e2e.browsing import choose, ids, settle, start, until
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
    page.locator("#collection").click()
    page.locator("#collections").get_by_text(name, exact=True).click()
    until(page, f"document.querySelector('#collection span').textContent === '{name}'")


def asked(page: sync_api.Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def count_is(page: sync_api.Page, count: int) -> None:
    until(page, f"document.querySelectorAll('#columns:not([aria-busy]) .card').length === {count}")


def test_the_readers_image_goes_along(page: sync_api.Page, served: Served, pictures: list[Path]) -> None:
    page.goto(f"{served.address}/?group_by=image&where=label%3Dodd")
    choose(page, pictures[0])
    count_is(page, 15)
    enter(page, "few")
    count_is(page, 6)
    assert asked(page) == {"collection": ["few"]}
    assert page.inner_text("#tally") == "6 of 6"
    until(page, "[...document.querySelectorAll('#columns img')].every(image => image.naturalWidth > 0)")
    page.go_back()
    count_is(page, 15)
    assert page.inner_text("#collection span") == "many"
    page.locator("#add-filter").click()
    page.get_by_label("even").check()  # either value will do
    count_is(page, 20)


def test_an_image_of_a_collection_stays_behind(page: sync_api.Page) -> None:
    start(page)
    enter(page, "few")
    page.locator("#drop").wait_for()
    assert asked(page) == {"collection": ["few"]}
    page.go_back()
    page.go_back()  # to the address of the beginning, which names no collection
    until(page, "document.querySelector('#collection span').textContent === 'many'")
    assert asked(page) == {}
    enter(page, "few")
    page.locator("#drop").wait_for()
    until(page, "[...document.querySelectorAll('#start img')].every(image => image.naturalWidth > 0)")


def test_addresses_name_the_collection(page: sync_api.Page, served: Served, tolerated: list[str]) -> None:
    tolerated.append("404")
    enter(page, "few")
    start(page, 1)
    shown, address = ids(page), page.url
    assert asked(page)["collection"] == ["few"]
    page.goto("about:blank")
    page.goto(address)
    settle(page)
    assert ids(page) == shown
    assert page.inner_text("#collection span") == "few"
    page.goto(f"{served.address}/?collection=nobody")
    page.get_by_role("heading", name="No such collection").wait_for()
    page.get_by_role("link", name="few").click()
    page.locator("#drop").wait_for()


def test_links_of_the_menu_name_the_collection(page: sync_api.Page) -> None:
    enter(page, "few")
    assert str(page.get_by_role("link", name="Browse").get_attribute("href")).endswith("?collection=few")


def test_a_collection_that_has_gone(page: sync_api.Page, tolerated: list[str]) -> None:
    tolerated.append("503")
    page.route("**/?collection=few", lambda route: route.fulfill(status=503, body="gone"))
    page.locator("#collection").click()
    page.locator("#collections").get_by_text("few").click()
    page.get_by_role("alert").wait_for()
    assert page.inner_text("#collection span") == "many"


def test_pictures_whose_files_are_gone(page: sync_api.Page, served: Served, tolerated: list[str]) -> None:
    tolerated.append("410")
    page.goto(f"{served.address}/?collection=gone")
    page.get_by_text("Picture no longer available").first.wait_for()
    start(page)
    page.locator("#columns").get_by_text("Picture no longer available").first.wait_for()
