"""What matches in series: shown on the slices that were compared, and said where others are shown."""

from collections.abc import Iterator

import pytest
from playwright import sync_api

from tests.cbir.images.synthetic_series import stack, write_series
from tests.e2e.browsing import VIEWER, settle, start, until, until_viewers
from tests.indexer.commands import call
from tests.service.conftest import Served, serving

SLICES = 5
AWAY = "Only the slices that were compared have colours: scroll back to them."


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder, collection = tmp_path_factory.mktemp("series"), tmp_path_factory.mktemp("collection") / "c"
    for seed, uid in enumerate(("1.2.1", "1.2.2"), 1):
        values = stack((SLICES, 64, 64), (20.0, 3.5, 3.5), seed)
        write_series(folder / uid, values, (20.0, 3.5, 3.5), uid, PatientID=uid)
    call("index", folder, "--collection", collection, "--profile", "huang2012", "--jobs", 1)
    with serving(collection) as running:
        yield running


def test_other_slices_than_those_compared_say_why_they_have_no_colours(page: sync_api.Page) -> None:
    start(page)
    page.locator("#columns .card").first.click()
    until_viewers(page, f"viewer.count === {SLICES} && viewer.picture")
    page.keyboard.press("h")
    until_viewers(page, "viewer.overlay")
    explanation = page.locator(".explanation")
    assert AWAY not in explanation.inner_text()
    for stage in (0, 1):  # alone: they move by millimetres where one of them may be at its end
        page.get_by_role("dialog").get_by_role("checkbox", name="Slices").set_checked(False)
        page.locator(".reading .viewer-stage").nth(stage).focus()
        at = page.evaluate(f"document.querySelectorAll('.reading cbir-viewer')[{stage}].index")
        away, back = ("ArrowDown", "ArrowUp") if at < SLICES - 1 else ("ArrowUp", "ArrowDown")
        page.keyboard.press(away)
        explanation.get_by_text(AWAY).wait_for()
        page.keyboard.press(back)
        explanation.get_by_text(AWAY).wait_for(state="detached")


def test_a_comparison_is_opened_and_laid_out_anew_while_it_is_on(page: sync_api.Page) -> None:
    page.goto(f"{page.url}?group_by=image")
    start(page)
    page.locator("#explain").click()
    page.locator("#columns .card").first.click()
    until_viewers(page, "viewer.picture && viewer.overlay")
    page.get_by_role("button", name="2 × 2").click()
    until(
        page, "[...document.querySelectorAll('.reading cbir-viewer')].slice(1, 4).every((one) => one.overlay)"
    )
    page.get_by_role("button", name="Next result").click()
    page.get_by_role("heading", name="Result 2").wait_for()
    until_viewers(page, "viewer.picture")
    until_viewers(page, "viewer.overlay")
    assert AWAY not in page.locator(".explanation").inner_text()


def test_it_stays_on_from_slice_to_slice_of_the_query(page: sync_api.Page) -> None:
    image = start(page)
    page.locator("#explain").click()
    until(page, f"{VIEWER}.count === {SLICES}")
    at = page.evaluate(f"{VIEWER}.index")
    page.locator("#side .viewer-slider").fill(str(at if at else at + 2))
    until(page, f"!location.search.includes({image!r})")
    settle(page)
    assert page.locator("#explain").get_attribute("aria-pressed") == "true"
    page.go_back()
    until(page, f"location.search.includes({image!r})")
    settle(page)
    assert page.locator("#explain").get_attribute("aria-pressed") == "true"
    page.locator("#columns .card").last.hover()
    page.locator("#columns canvas.match, #columns .part-bars").first.wait_for()
