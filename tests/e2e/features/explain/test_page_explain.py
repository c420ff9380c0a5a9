"""What matches, shown on results and in the comparison."""

import pytest
from playwright.sync_api import expect

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
    expect(page.locator("#drop canvas.match")).to_be_visible()
    assert coloured(page, "#columns canvas.match") > 100
    page.locator("h1, #summary").first.hover(force=True)
    expect(page.locator("canvas.match")).to_have_count(0)
    page.locator("#columns .card").nth(2).focus()
    expect(page.locator("#columns li:nth-child(3) canvas.match")).to_be_visible()
    page.keyboard.press("h")
    expect(page.locator("canvas.match")).to_have_count(0)
    expect(page.locator("#explain")).to_have_attribute("aria-pressed", "false")


def test_the_comparison_shows_what_matches_on_both_sides(page):
    page.locator("#start .card").first.click()
    page.locator("#columns .card[data-image]").first.wait_for()
    page.wait_for_load_state("networkidle")  # the cards are drawn again when another search ends
    page.locator("#columns .card").nth(1).click()
    expect(page.locator("#compare")).to_be_visible()
    expect(page.locator("#match-parts")).to_be_hidden()
    page.keyboard.press("h")
    expect(page.locator("#compare canvas.match")).to_have_count(2)
    page.locator("#match-opacity").fill("40")
    assert (
        page.locator("#compare canvas.match").first.evaluate("canvas => getComputedStyle(canvas).opacity")
        == "0.4"
    )
    page.locator("#larger").click()
    transforms = page.locator("#compare .pane").first.evaluate(
        "pane => [...pane.querySelectorAll('img, canvas.match')].map(each => each.style.transform)"
    )
    assert len(set(transforms)) == 1
    page.locator("#later").click()
    expect(page.locator("#compare canvas.match")).to_have_count(2)
