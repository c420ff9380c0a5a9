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
