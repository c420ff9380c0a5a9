"""DICOM series on the page: tools on the query, slices and one window in the comparison, other studies."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright import sync_api

from tests.cbir.images.synthetic_series import stack, write_series
from tests.e2e.browsing import PATIENCE_SECONDS, VIEWERS, see_query, settle, until, until_viewers, viewers
from tests.e2e.browsing import VIEWER as QUERY
from tests.indexer.commands import call
from tests.service.conftest import Served, serving

SLICES = 5
SERIES = {"1.2.1": "A", "1.2.2": "A", "1.2.3": "B"}  # patients
DATES = {"1.2.1": "20240110", "1.2.2": "20231231", "1.2.3": "20240110"}
VIEWER = "https://viewer.example.org/viewer?StudyInstanceUIDs={study}"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of slices in a folder of each series; each is a study of its own."""
    folder = tmp_path_factory.mktemp("series")
    for seed, (uid, patient) in enumerate(SERIES.items(), 1):
        values = stack((SLICES, 64, 64), (20.0, 3.5, 3.5), seed)
        day = DATES[uid]
        write_series(folder / uid, values, (20.0, 3.5, 3.5), uid, PatientID=patient, StudyDate=day)
    return folder


@pytest.fixture(scope="module")
def served(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    collection = tmp_path_factory.mktemp("collection") / "c"
    call("index", files, "--collection", collection, "--profile", "tamura", "--jobs", 1)
    with serving(collection, CBIR_VIEWER_LINK=VIEWER) as running:
        yield running


def search(page: sync_api.Page) -> None:
    """Search with an image of patient A."""
    image = page.evaluate(
        "fetch('/v1/images?study=1.2.1.9').then((answer) => answer.json()).then(({ items }) => items[0].image_id)"
    )
    page.goto(f"{page.url}?image={image}&group_by=image")
    settle(page)


@pytest.fixture
def searched(page: sync_api.Page) -> sync_api.Page:
    """The page with the results of that search."""
    search(page)
    return page


def studies(page: sync_api.Page, panel: str) -> list[str]:
    """The studies of the images in a part of the page, one for each image."""
    ids = [card.get_attribute("data-image") for card in page.locator(f"{panel} .card").all()]
    return [
        page.evaluate(f"fetch('/v1/images/{image}').then((answer) => answer.json()).then((it) => it.study)")
        for image in ids
    ]


def test_earlier_studies_of_an_image_of_the_collection(searched: sync_api.Page) -> None:
    searched.get_by_text("Other studies of this patient (1)").wait_for()
    assert studies(searched, "#priors") == ["1.2.2.9"] * SLICES
    searched.get_by_role("heading", name="10 days earlier").wait_for()
    link = searched.get_by_role("link", name="Side by side")
    both = "StudyInstanceUIDs=1.2.1.9,1.2.2.9&hangingProtocolId=@ohif/hpCompare"
    assert link.get_attribute("href") == f"https://viewer.example.org/viewer?{both}"
    searched.locator("#priors .card").first.click()
    searched.get_by_role("dialog").get_by_text("Result 1 of 5").wait_for()
    searched.keyboard.press("Escape")
    searched.locator("#columns .card").last.focus()
    searched.keyboard.press("s")
    settle(searched)


def test_earlier_studies_of_a_file_are_loaded_on_demand(page: sync_api.Page, files: Path) -> None:
    page.set_input_files("#file", next((files / "1.2.2").iterdir()))
    page.get_by_text("Other studies of this patient").click()
    page.get_by_text("Other studies of this patient (5)").wait_for()
    assert studies(page, "#priors") == ["1.2.1.9"] * SLICES


def test_no_other_study(page: sync_api.Page, files: Path) -> None:
    page.set_input_files("#file", next((files / "1.2.3").iterdir()))
    page.get_by_text("Other studies of this patient").click()
    page.get_by_text("The collection has no other study of this patient.").wait_for()


def test_slices_of_both_sides(searched: sync_api.Page) -> None:
    searched.locator("#columns .card").first.click()
    until_viewers(searched, "viewer.count === 5 && viewer.picture")
    searched.keyboard.press("Home")  # of the result, which has the focus
    until(searched, f"{VIEWERS}[1].slice === {VIEWERS}[1].slices[0]")
    first = viewers(searched, "viewer.slice.id")[1]
    searched.keyboard.press("ArrowDown")
    until(searched, f"{VIEWERS}[1].counter.textContent === 'Slice 2 of 5'")
    assert viewers(searched, "viewer.slice.id")[1] != first
    searched.get_by_role("dialog").get_by_role("checkbox", name="Slices").uncheck()
    left = viewers(searched, "viewer.index")[0]
    searched.locator(".reading .viewer-stage").nth(1).hover()
    searched.mouse.wheel(0, 120)
    until(searched, f"{VIEWERS}[1].counter.textContent === 'Slice 3 of 5'")
    assert viewers(searched, "viewer.index")[0] == left
    searched.keyboard.down("Control")
    searched.mouse.wheel(0, -120)
    searched.keyboard.up("Control")
    until_viewers(searched, "viewer.scale > 1")
    link = searched.get_by_role("link", name="Open in PACS viewer")
    assert str(link.get_attribute("href")).startswith(
        "https://viewer.example.org/viewer?StudyInstanceUIDs=1.2."
    )


def test_the_next_result_follows_the_slice_of_the_query(searched: sync_api.Page) -> None:
    searched.locator("#columns .card").first.click()
    until_viewers(searched, "viewer.count === 5 && viewer.picture")
    start = viewers(searched, "viewer.index")[0]
    searched.locator(".reading .viewer-stage").first.focus()
    searched.keyboard.press("Home" if start else "End")
    at = viewers(searched, "viewer.index")[0]
    assert at != start
    searched.keyboard.press("ArrowRight")
    until_viewers(searched, "viewer.count === 5 && viewer.picture && viewer.shownIndex === viewer.index")
    query, result = viewers(searched, "[viewer.index, viewer.anchor]")
    assert query == [at, start]
    assert result[0] == min(max(result[1] + at - start, 0), SLICES - 1)


def test_one_window_for_both_sides(searched: sync_api.Page) -> None:
    searched.locator("#columns .card").first.click()
    until_viewers(searched, "viewer.picture")
    searched.keyboard.press("5")
    until_viewers(searched, "String(viewer.shownWindow) === '-600,1500'")
    searched.keyboard.press("ArrowRight")
    until_viewers(searched, "viewer.picture && String(viewer.shownWindow) === '-600,1500'")
    searched.get_by_role("dialog").get_by_role("checkbox", name="Window").uncheck()
    searched.locator(".reading .viewer-stage").first.focus()
    searched.keyboard.press("6")
    until(searched, f"String({VIEWERS}[0].shownWindow) === '480,2500'")
    assert viewers(searched, "viewer.shownWindow")[1] == [-600, 1500]


def test_one_window_until_one_is_chosen(searched: sync_api.Page) -> None:
    """The files have none: each slice would have one of its own, by its values."""
    searched.locator("#columns .card").last.click()
    until_viewers(searched, "viewer.count === 5 && viewer.picture?.stored")
    shown, other = viewers(searched, "viewer.shownWindow")
    assert shown == other
    own = set()
    for key in ("Home", "PageDown", "PageDown", "PageDown", "PageDown"):
        searched.keyboard.press(key)
        until_viewers(searched, "viewer.shownIndex === viewer.index && viewer.picture?.stored")
        assert viewers(searched, "viewer.shownWindow") == [shown, shown]
        own |= {tuple(window) for window in viewers(searched, "viewer.picture.windowing.window")}
    assert len(own) > 1
    searched.get_by_role("dialog").get_by_role("checkbox", name="Window").uncheck()
    assert viewers(searched, "String(viewer.shownWindow) === String(viewer.firstWindow)") == [True, True]


def test_a_step_back_closes_the_comparison_alone(searched: sync_api.Page) -> None:
    address = searched.url
    searches: list[str] = []
    searched.on("request", lambda request: searches.append(request.url) if request.method == "POST" else None)
    for leave in (searched.go_back, lambda: searched.keyboard.press("Escape"), searched.go_back):
        searched.locator("#columns .card").first.click()
        searched.locator('.reading [data-mark="1"]').first.click()
        leave()
        searched.locator(".reading").wait_for(state="detached")
        assert searched.url == address
        assert searched.locator("#columns .card").count() == 14
    assert not searches
    assert searched.evaluate("history.state.marks")  # of three clicks: kept by a reload
    searched.locator("#columns .card").first.click()
    searched.locator(".reading").get_by_role("button", name="Search with this image").first.click()
    settle(searched)
    assert len(searches) == 1
    assert searched.url != address
    searched.go_back()
    until(searched, f"location.href === {address!r}")


def test_a_comparison_that_is_closed_twice_or_reloaded_takes_one_step(searched: sync_api.Page) -> None:
    address = searched.url
    searched.locator("#columns .card").first.click()
    until_viewers(searched, "viewer.picture")
    searched.evaluate("[0, 1].map(() => document.querySelector('.reading-leave').click())")
    searched.locator(".reading").wait_for(state="detached")
    searched.wait_for_timeout(200)  # until a second step would have been taken
    assert searched.url == address
    searched.locator("#columns .card").first.click()
    until_viewers(searched, "viewer.picture")
    searched.reload()
    settle(searched)
    assert searched.locator(".reading").count() == 0
    searched.locator("#group").click()
    searched.get_by_role("button", name="One per study").click()
    settle(searched)
    grouped = searched.url
    searched.locator("#columns .card").first.click()
    searched.keyboard.press("Escape")
    searched.locator(".reading").wait_for(state="detached")
    assert searched.url == grouped != address


def test_a_finger_goes_through_slices(browser: sync_api.Browser, served: Served) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.goto(served.address)
    search(page)
    assert not page.locator("#side .viewer-window").is_visible()  # a small picture of the query
    page.locator("#columns .card").last.tap()
    until_viewers(page, "viewer.count === 5 && viewer.picture")
    page.keyboard.press("Home")
    until(page, f"{VIEWERS}[1].shownIndex === 0")
    box = page.locator(".reading .viewer-stage").nth(1).bounding_box()
    assert box
    touch = page.context.new_cdp_session(page)
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    for kind, down in (("touchStart", 0), ("touchMove", 16), ("touchMove", 32), ("touchEnd", None)):
        points = [] if down is None else [{"x": x, "y": y + down}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    until(page, f"{VIEWERS}[1].counter.textContent === 'Slice 3 of 5'")
    assert viewers(page, "viewer.scale") == [1, 1]
    page.get_by_role("button", name="2 × 2").tap()
    until_viewers(page, "viewer.picture")
    assert len(set(viewers(page, "viewer.pane.width"))) == 1  # pictures of one size, whatever is below them
    page.close()


def test_marks_and_rounds_stay_from_slice_to_slice(searched: sync_api.Page) -> None:
    asked: list[dict[str, Any]] = []
    searched.on(
        "request", lambda request: asked.append(request.post_data_json) if request.method == "POST" else None
    )
    liked = searched.locator("#columns .card").nth(1).get_attribute("data-image")
    searched.locator("#columns .card").nth(1).press("y")
    searched.locator("#columns .card").nth(2).press("n")
    searched.keyboard.press("j")
    until(searched, "document.querySelectorAll('#rounds li').length === 1")
    settle(searched)
    until(searched, f"{QUERY}.count === {SLICES}")
    searched.locator("#side .viewer-slider").fill("5")
    until(searched, f"{QUERY}.shownIndex === 4")
    end = time.monotonic() + PATIENCE_SECONDS
    while len(asked) < 2 and time.monotonic() < end:
        searched.wait_for_timeout(20)
    settle(searched)
    assert asked[1]["image_id"] != asked[0]["image_id"]
    assert asked[1]["feedback"] == asked[0]["feedback"]
    assert searched.locator("#judged").inner_text() == "1 like this, 1 not"
    assert searched.locator("#rounds li").count() == 1
    assert searched.locator("#learn").is_disabled()
    searched.go_back()
    until(searched, f"{QUERY}.slice?.id === '{asked[0]['image_id']}'")
    settle(searched)
    assert searched.locator("#judged").inner_text() == "1 like this, 1 not"
    x, y, width = middle_of(searched)
    searched.keyboard.press("c")
    drag(searched, (x - width / 4, y - width / 4), width / 2, width / 2)
    searched.locator(".region-line").wait_for()
    until(searched, "document.querySelectorAll('#rounds li').length === 0")
    settle(searched)
    assert "feedback" not in asked[-1]  # the region alone is searched for
    assert searched.locator("#judged").inner_text() == "1 like this, 1 not"
    assert searched.locator("#learn").is_enabled()
    assert searched.locator(f'.liked [data-image="{liked}"]').count() == 1


def test_a_tool_is_of_all_pictures_beside_each_other(searched: sync_api.Page) -> None:
    searched.locator("#columns .card").first.click()
    until_viewers(searched, "viewer.picture")
    searched.locator('.reading [data-tool="measure"]').nth(1).click()
    assert viewers(searched, "viewer.tool") == ["measure", "measure"]
    searched.get_by_role("button", name="2 × 2").click()
    until_viewers(searched, "viewer.picture && viewer.tool === 'measure'")
    searched.get_by_role("button", name="1 × 2").click()
    assert searched.locator(".reading .viewer-row").count() == 1
    searched.locator('.reading [data-tool="window"]').first.click()
    assert viewers(searched, "viewer.tool") == ["window", "window"]
    # The row of the other picture closes.
    until(searched, "document.querySelectorAll('.reading .viewer-row').length === 1")


def middle_of(page: sync_api.Page) -> tuple[float, float, float]:
    """The middle of the query's viewer, and its width."""
    see_query(page)
    box = page.locator("#side .viewer-stage").bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, box["width"]


def drag(page: sync_api.Page, start: tuple[float, float], right: float, down: float) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(start[0] + right, start[1] + down, steps=3)
    page.mouse.up()


def test_tools_on_the_query(searched: sync_api.Page) -> None:
    *middle, width = middle_of(searched)
    searched.locator("#side .viewer-stage").focus()
    searched.keyboard.press("m")
    drag(searched, (middle[0], middle[1]), 40, 0)
    length = searched.evaluate(f"{QUERY}.measured.textContent")
    assert abs(float(length.split()[0]) - 40 * 64 / width * 3.5) < 1.5
    assert "region" not in searched.url
    searched.keyboard.press("5")  # the lung: another picture, not another search
    until(searched, f"String({QUERY}.shownWindow) === '-600,1500'")
    assert (
        searched.get_by_role("button", name="Search in this window").count() == 0
    )  # of an image of the collection


def test_a_region_of_an_enlarged_picture(searched: sync_api.Page) -> None:
    *middle, width = middle_of(searched)
    searched.locator("#side .viewer-stage").focus()
    searched.keyboard.press("+")
    searched.keyboard.press("+")
    until(searched, f"Math.abs({QUERY}.scale - 1.5625) < 0.001")
    searched.locator("#side").get_by_role("button", name="Region").click()
    drag(searched, (middle[0], middle[1]), 90, 90)
    searched.wait_for_url("**region=**")
    text = searched.url.split("region=")[1].split("&")[0].replace("%2C", ",")
    x, y, across, down = map(int, text.split(","))
    pixel = width / 64 * 1.25**2  # of the screen
    assert (x, y) == pytest.approx((32, 32), abs=1.1)
    assert (across, down) == pytest.approx((90 / pixel, 90 / pixel), abs=1.1)


def test_dragging_over_a_card_goes_through_its_series(page: sync_api.Page) -> None:
    asked: list[sync_api.Route] = []
    is_over = False
    page.route(
        re.compile(r"/images\?.*sort=slices"),
        lambda route: route.continue_() if is_over else asked.append(route),
    )
    search(page)
    film = page.locator("#columns .film").first
    box = film.bounding_box()
    assert box
    number = int(film.locator(".slice").inner_text().split()[0])
    before = film.locator("img").get_attribute("src")
    right = 1 if number < SLICES else -1
    drag(page, (box["x"] + box["width"] / 2, box["y"] + 60), right * box["width"] * 0.3, 0)
    page.wait_for_timeout(100)
    assert asked  # the drag has ended before its slices are known
    is_over = True
    for request in asked:
        request.continue_()
    until(page, f"document.querySelector('#columns .slice').textContent === '{number + right} of {SLICES}'")
    assert film.locator("img").get_attribute("src") != before
    assert page.locator("dialog[open]").count() == 0  # a drag is no click


def test_one_result_a_patient_without_the_querys_study(searched: sync_api.Page) -> None:
    searched.locator("#group").click()
    searched.get_by_role("button", name="One per known patient").click()
    settle(searched)
    assert sorted(studies(searched, "#columns")) == ["1.2.2.9", "1.2.3.9"]
    searched.locator("#group").click()
    searched.get_by_label("Without the query's own study").uncheck()
    settle(searched)
    assert sorted(studies(searched, "#columns")) == ["1.2.1.9", "1.2.3.9"]
