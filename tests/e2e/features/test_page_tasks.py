"""A task of a radiologist takes at most two clicks beyond the file, or two taps on a phone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright import sync_api
from playwright.sync_api import expect

from tests.cbir.images.synthetic_series import stack, write_series
from tests.e2e.browsing import SEARCHES, VIEWERS, choose, settle, until, until_viewers, viewers
from tests.indexer.commands import call
from tests.service.conftest import Served, serving

MOST_CLICKS = 2
SLICES = 5
SPACING = (20.0, 3.5, 3.5)
COUNT_CLICKS = (
    "addEventListener('click', (event) => (window.clicks = (window.clicks ?? 0) + event.isTrusted), true)"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of slices in a folder of each series; each is of another patient."""
    folder = tmp_path_factory.mktemp("series")
    for number in range(1, 9):
        values = stack((SLICES, 64, 64), SPACING, number)
        write_series(folder / str(number), values, SPACING, f"1.2.{number}", PatientID=f"P{number}")
    return folder


@pytest.fixture(scope="module")
def served(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    collection = tmp_path_factory.mktemp("collection") / "c"
    call("index", files, "--collection", collection, "--profile", "tamura", "--jobs", 1)
    with serving(collection) as running:
        yield running


@pytest.fixture(params=["desk", "phone"])
def page(
    request: pytest.FixtureRequest, browser: sync_api.Browser, served: Served, files: Path
) -> Iterator[sync_api.Page]:
    """The results of a file, from where clicks are counted."""
    width, height, touch = (390, 844, True) if request.param == "phone" else (1440, 900, False)
    opened = browser.new_page(viewport={"width": width, "height": height}, has_touch=touch, is_mobile=touch)
    opened.add_init_script(COUNT_CLICKS)
    opened.goto(served.address)
    choose(opened, sorted((files / "1").iterdir())[2])
    yield opened
    clicks = opened.evaluate("window.clicks ?? 0")
    opened.close()
    assert clicks <= MOST_CLICKS


def press(page: sync_api.Page, target: sync_api.Locator) -> None:
    """Click, or tap where the page is touched."""
    if page.evaluate("matchMedia('(pointer: coarse)').matches"):
        target.tap()
    else:
        target.click()


def test_similar_cases_are_found(page: sync_api.Page) -> None:
    assert page.locator("#columns .card").count() >= 5  # of other patients
    expect(page.locator("#columns .card .film img").first).to_be_visible()
    assert page.evaluate("window.clicks ?? 0") == 0


def test_slices_are_compared(page: sync_api.Page) -> None:
    press(page, page.locator("#columns .card").first)
    until_viewers(page, "viewer.picture")
    until(page, f"{VIEWERS}[1].count === {SLICES}")
    before = viewers(page, "viewer.slice.id")[1]
    page.locator(".reading .viewer-stage").nth(1).hover()
    page.mouse.wheel(0, 120)
    until(page, f"{VIEWERS}[1].slice.id !== '{before}'")


def test_results_are_refined(page: sync_api.Page) -> None:
    card = page.locator("#columns li").nth(3)
    liked = card.locator(".card").get_attribute("data-image")
    card.hover()
    press(page, card.get_by_role("button", name="Like this", exact=False).first)
    with page.expect_response(SEARCHES):
        press(page, page.get_by_role("button", name="Refine"))
    settle(page)
    expect(page.locator("#columns .card").first).to_have_attribute("data-image", str(liked))


def test_a_case_is_kept(page: sync_api.Page) -> None:
    press(page, page.locator("#save-case"))
    page.keyboard.type("Fracture")
    press(page, page.locator("#case-confirm"))
    expect(page.get_by_role("link", name="Fracture")).to_be_visible()
