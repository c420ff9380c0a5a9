"""The search page in other languages, chosen by the browser and by hand."""

from collections.abc import Iterator

import pytest
from playwright import sync_api

from tests.e2e.browsing import start
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
    page.locator("[popovertarget=more]").click()
    page.get_by_role("link", name="DE", exact=True).click()
    page.get_by_role("button", name="Menü").wait_for()
    start(page)
    assert page.get_by_role("button", name="Vergleichen").is_visible()
    page.reload()  # the cookie keeps the choice; the address of a search does not have it
    assert "lang=" not in page.url
    assert page.locator("html").get_attribute("lang") == "de"


def test_shortcuts_are_the_same_in_every_language(page: sync_api.Page, served: Served) -> None:
    page.goto(f"{served.address}/?lang=fr")
    page.locator("#drop").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Raccourcis clavier").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "box"


def test_the_language_of_the_browser_on_a_phone(chinese: sync_api.Page) -> None:
    assert chinese.locator("html").get_attribute("lang") == "zh-Hans"
    start(chinese)
    assert chinese.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("width", [390, 1024])
def test_the_bar_of_all_pages(browser: sync_api.Browser, served: Served, width: int) -> None:
    page = browser.new_page(locale="de-DE", viewport={"width": width, "height": 800})
    for path in ("/", "/browse", "/saved"):
        page.goto(served.address + path)
        box = page.locator(".top").bounding_box()
        assert box
        assert box["height"] == 48
        page.locator("[popovertarget=more]").click()
        links = page.get_by_role("link").all_inner_texts()
        assert {"Suchen", "Stöbern", "Gespeichert"} <= set(links)
        assert page.locator("[aria-current=page]:visible").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.close()
