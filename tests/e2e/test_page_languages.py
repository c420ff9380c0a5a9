"""The search page in other languages, chosen by the browser and by hand."""

from collections.abc import Iterator

import pytest
from playwright import sync_api

from tests.e2e.browsing import settle
from tests.service.conftest import Served

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def chinese(browser: sync_api.Browser, served: Served) -> Iterator[sync_api.Page]:
    page = browser.new_page(locale="zh-CN", viewport={"width": 390, "height": 800})
    page.goto(served.address)
    yield page
    page.close()


def test_a_language_chosen_in_the_menu(page: sync_api.Page) -> None:
    assert page.locator("html").get_attribute("lang") == "en"
    page.locator("#languages summary").click()
    page.get_by_role("link", name="Deutsch").click()
    page.get_by_role("button", name="Tastenkürzel").wait_for()
    page.locator(".examples .card").first.click()
    settle(page)
    page.wait_for_selector(".move")  # and what moved
    assert "Treffer" in page.inner_text("#summary")
    assert page.get_by_role("heading", name="Neu geordnet").count() == 1
    page.reload()  # the cookie keeps the choice; the address of a search does not have it
    assert "lang=" not in page.url
    assert page.locator("html").get_attribute("lang") == "de"


def test_shortcuts_are_the_same_in_every_language(page: sync_api.Page, served: Served) -> None:
    page.goto(f"{served.address}/?lang=fr", wait_until="networkidle")  # scripts wait for their texts
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Raccourcis clavier").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.id") == "k"


def test_the_language_of_the_browser_on_a_phone(chinese: sync_api.Page) -> None:
    assert chinese.locator("html").get_attribute("lang") == "zh-Hans"
    chinese.locator(".examples .card").first.click()
    settle(chinese)
    assert "个结果" in chinese.inner_text("#summary")
    assert chinese.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize(("width", "most"), [(390, 100), (1024, 70)])
def test_links_to_all_pages_fit_into_the_header(
    browser: sync_api.Browser, served: Served, width: int, most: int
) -> None:
    page = browser.new_page(locale="de-DE", viewport={"width": width, "height": 800})
    for path in ("/", "/gallery", "/map", "/cases", "/cohorts"):
        page.goto(served.address + path)
        links = page.get_by_role("navigation", name="Seiten").get_by_role("link")
        assert links.all_inner_texts()[:4] == ["Suchen", "Galerie", "Karte", "Fälle"]
        assert page.locator(".top").bounding_box()["height"] < most
        assert page.locator("#pages").bounding_box()["height"] < 40  # one row
        assert page.locator("#pages [aria-current]").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.close()
