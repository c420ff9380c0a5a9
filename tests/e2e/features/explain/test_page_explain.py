"""What matches, shown on results and in the comparison."""

import pytest
from playwright.sync_api import expect

from tests.e2e.browsing import VIEWER, choose, start, until, until_viewers, viewers

OPAQUE_PIXELS = (
    "viewer.overlay.getContext('2d').getImageData(0, 0, viewer.overlay.width, viewer.overlay.height)"
    ".data.some((value, index) => index % 4 === 3 && value)"
)
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def coloured(page, selector):
    """Return how many pixels of a canvas are not transparent."""
    return page.locator(selector).evaluate(
        """canvas => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height)
            .data.filter((value, index) => index % 4 === 3 && value).length"""
    )


def test_what_matches_is_shown_on_the_result_and_the_query(page):
    page.locator("#start .card").first.click()
    expect(page.locator("#columns .card").first).to_be_visible()
    page.locator("#explain").click()
    expect(page.locator("#explain-hint")).to_contain_text("no diagnosis")
    page.locator("#columns .card").nth(1).hover()
    expect(page.locator("#columns canvas.match")).to_have_count(1)
    until(page, f"{VIEWER}.overlay !== null")
    assert coloured(page, "#columns canvas.match") > 100
    page.locator(".brand").hover()
    expect(page.locator("canvas.match")).to_have_count(0)
    page.locator("#columns .card").nth(2).focus()
    expect(page.locator("#columns li:nth-child(3) canvas.match")).to_be_visible()
    page.keyboard.press("h")
    expect(page.locator("canvas.match")).to_have_count(0)
    expect(page.locator("#explain")).to_have_attribute("aria-pressed", "false")


def test_the_comparison_shows_what_matches_on_both_sides(page):
    page.locator("#start .card").first.click()
    page.locator("#columns .card").first.wait_for()
    page.locator("#columns .card").nth(1).click()
    until_viewers(page, "viewer.picture")
    expect(page.get_by_role("checkbox", name="Slices")).to_be_disabled()  # of single images
    expect(page.locator(".explanation")).to_be_hidden()
    page.keyboard.press("h")
    until_viewers(page, "viewer.overlay")
    assert viewers(page, OPAQUE_PIXELS) == [True, True]
    page.get_by_label("Overlay").fill("40")
    assert viewers(page, "viewer.overlayOpacity") == [0.4, 0.4]
    page.get_by_role("button", name="Next result").click()
    until_viewers(page, "viewer.picture && viewer.overlay")


def test_colours_stay_for_the_rounds_of_a_query_and_not_for_another_one(page, pictures):
    page.locator("#start .card").first.click()
    page.locator("#columns .card").first.wait_for()
    page.locator("#explain").click()
    page.locator("#columns .card").nth(2).press("y")
    page.get_by_role("button", name="Refine").click()
    expect(page.locator("#verdict")).to_have_text("Refined by your marks")
    expect(page.locator("#explain")).to_have_attribute("aria-pressed", "true")
    choose(page, pictures[-1])
    expect(page.locator("#explain")).to_have_attribute("aria-pressed", "false")
    page.locator("#explain").click()
    page.reload()
    start(page)
    expect(page.locator("#explain")).to_have_attribute("aria-pressed", "false")


def test_on_a_phone_the_open_query_gives_way_to_the_results(page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator("#start .card").first.click()
    expect(page.locator("#columns .card").first).to_be_visible()
    for pressed, words in (("true", "tap a result"), ("false", "")):
        page.locator(".sheet-switch").click()
        page.locator("#explain").click()
        expect(page.locator("#explain")).to_have_attribute("aria-pressed", pressed)
        expect(page.locator(".query.open")).to_have_count(0 if words else 1)
        if words:
            expect(page.locator("#notice")).to_contain_text(words)
            expect(page.locator("#notice")).to_contain_text("no diagnosis")
    expect(page.locator("#notice")).to_be_empty()
    page.locator("#explain").click()
    page.locator(".sheet-switch").click()
    expect(page.get_by_text("tap a result")).to_have_count(1)  # once, as notice or as hint
