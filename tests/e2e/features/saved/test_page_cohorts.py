"""Finding all images of a kind on the pages of cohorts."""

from pathlib import Path

import pytest
from playwright import sync_api
from playwright.sync_api import expect

from tests.e2e.browsing import choose, until
from tests.e2e.test_page_axe import AXE, complaints_dark_and_light
from tests.service.conftest import Served


def begin_from_search(page: sync_api.Page, title: str) -> None:
    """Mark two results, and begin a cohort with them."""
    page.locator("#columns .card").nth(1).press("y")
    page.locator("#columns .card").nth(2).press("n")
    page.locator("#find-all").click()
    page.locator("#begin-title").fill(title)
    page.locator("#begin-confirm").click()
    page.locator("#grid .card").first.wait_for()


def test_judging_by_keys_and_taps_undoing_and_exporting(
    page: sync_api.Page, served: Served, pictures: list[Path]
) -> None:
    choose(page, pictures[-1])
    begin_from_search(page, "By keys")
    assert page.locator("#found").inner_text() == "1"
    cards = page.locator("#grid .card")
    first = cards.first.get_attribute("data-image")
    cards.first.focus()
    page.keyboard.press("o")
    expect(page.locator(".reading h2")).to_contain_text("Result 1 of")
    page.keyboard.press("Escape")
    page.keyboard.press("y")
    page.keyboard.press("n")
    page.keyboard.press("ArrowLeft")
    cards.nth(2).click()  # a tap: belongs
    assert page.locator("#grid .liked").count() == 2
    assert page.locator("#grid .unliked").count() == 1
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#found')?.textContent === '3'")
    assert "of" in page.locator("#missing").inner_text()
    assert page.locator(f"#grid [data-image='{first}']").count() == 0
    page.locator("#found-images summary").click()
    page.locator("#found-images .button").first.click()
    until(page, "document.querySelector('#found')?.textContent === '2'")
    assert page.locator("#found-images li").count() == 2
    page.locator("#undo").click()  # what was taken out belongs again
    until(page, "document.querySelectorAll('#found-images li').length === 3")
    page.locator("#undo").click()
    until(page, "document.querySelector('#found')?.textContent === '1'")
    until(page, "!document.querySelector('#found-images .button')")  # the last one stays
    page.locator(f"#grid [data-image='{first}']").wait_for()
    while not page.locator("#finished").count():
        page.locator("#all-irrelevant").click()
        page.locator("#next").click()
        until(page, "!document.querySelector('#undo').disabled && !document.querySelector('.unliked')")
    assert "0 of 1" in page.locator("#missing").inner_text()
    assert "You can stop" in page.locator("#advice").inner_text()
    with page.expect_download() as download:
        page.get_by_role("link", name="csv").click()
    assert Path(download.value.path()).read_text().count(",no,") > 20


def test_a_selection_of_browse_begins_a_cohort_that_is_changed_and_deleted(
    page: sync_api.Page, served: Served
) -> None:
    page.goto(f"{served.address}/browse")
    page.locator(".tile").first.click(modifiers=["Control"])
    page.locator("#find-all").click()
    page.locator("#begin-title").fill("From Browse")
    page.locator("#begin-confirm").click()
    page.locator("#grid .card").first.wait_for()
    page.locator("#title").fill("Renamed")
    page.get_by_role("button", name="Save changes").click()
    page.get_by_role("heading", name="Renamed", exact=True).wait_for()
    page.goto(f"{served.address}/cohorts")  # the old address of the list
    page.get_by_role("button", name="Delete Renamed").click()
    page.locator("#delete-confirm").click()
    until(
        page,
        "![...document.querySelectorAll('#list li')].some((each) => each.textContent.includes('Renamed'))",
    )


def test_a_cohort_that_is_gone(page: sync_api.Page, served: Served, tolerated: list[str]) -> None:
    tolerated.append("404")
    answer = page.goto(f"{served.address}/saved/cohorts/0123456789abcdef")
    assert answer is not None
    assert answer.status == 404


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core")
@pytest.mark.parametrize("width", [400, 1280])
def test_accessible(page: sync_api.Page, served: Served, pictures: list[Path], width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{served.address}/?k=5")
    choose(page, pictures[-1])
    page.locator("#columns .card").nth(1).press("y")
    page.locator("#find-all").click()
    page.locator("#begin-title").fill("For all")
    found = {"begin": complaints_dark_and_light(page)}
    page.locator("#begin-confirm").click()
    page.locator("#grid .card").nth(2).wait_for()
    page.locator("#grid .mark").first.click()
    page.locator("#grid .mark").nth(3).click()
    found["cohort"] = complaints_dark_and_light(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.goto(f"{served.address}/cohorts")  # the old address of the list
    page.locator("#list li").first.wait_for()
    found["list"] = complaints_dark_and_light(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert {state: said for state, said in found.items() if said} == {}
