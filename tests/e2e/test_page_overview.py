"""What the page says about all results together."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from playwright import sync_api
from playwright.sync_api import expect

from cbir.evaluation.datasets.phantoms.phantom_files import write_phantoms
from tests.e2e.browsing import SEARCHES, become_expert, choose, settle, start
from tests.service.conftest import Served, command, serving

STRIPES = 40  # pixels
COUNT = 105


def test_shares_of_a_label_are_drawn_and_counted(
    page: sync_api.Page, served: Served, pictures: list[Path]
) -> None:
    page.goto(f"{served.address}/?group_by=image")
    choose(page, pictures[-1])
    legend = [" ".join(text.split()) for text in page.locator(".share-word").all_inner_texts()]
    assert page.locator(".share-bar .share").count() == len(legend)
    counts = [int(text.split()[-1]) for text in legend]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) == 20
    become_expert(page)
    keys = page.locator("#share-key option").all_inner_texts()
    assert {"label", "severity"} <= set(keys)


def search_with_changed_answer(page: sync_api.Page, change: Callable[[dict[str, Any]], None]) -> None:
    """Search with an image of the start page, whose answer is changed on its way."""

    def fulfil(route: sync_api.Route) -> None:
        answer = route.fetch().json()
        change(answer)
        route.fulfill(json=answer)

    page.route("**/search", fulfil)
    start(page)


def alike(answer: dict[str, Any]) -> None:
    """Give all results one label."""
    answer["query"]["likeness"] = 0.5
    for hit in answer["results"]:
        hit["labels"] = {"label": "cyst"}
        hit["card"]["finding"] = "cyst"


def test_of_an_image_like_the_collection_only_the_labels_are_said(page: sync_api.Page) -> None:
    search_with_changed_answer(page, alike)
    assert re.fullmatch(r"(\d+) of the \1 nearest are labelled “cyst”", page.inner_text("#verdict"))
    assert page.inner_text("#agreement") == (
        "Not tested for a search like this. Not a probability for this patient."
    )
    assert page.locator("#left-out, .verdict.outlier").count() == 0


def test_judged_results_agree_by_no_merit_and_are_shown_from_the_first(
    page: sync_api.Page, pictures: list[Path]
) -> None:
    page.set_viewport_size({"width": 1280, "height": 480})
    choose(page, pictures[-1])
    assert page.inner_text("#verdict") not in ("", "Refined by your marks")
    page.locator("#columns .card").first.press("y")
    page.evaluate("document.querySelector('.found').scrollTo(0, 100)")
    assert page.evaluate("document.querySelector('.found').scrollTop") > 0
    with page.expect_response("**/search"):
        page.locator("#learn").click()
    settle(page)
    assert page.inner_text("#verdict") == "Refined by your marks"
    assert page.evaluate("document.querySelector('.found').scrollTop") == 0


def unlike(answer: dict[str, Any]) -> None:
    alike(answer)
    answer["query"]["likeness"] = 0.03


def test_on_a_phone_the_strip_says_that_a_match_is_poor(page: sync_api.Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    search_with_changed_answer(page, unlike)
    expect(page.locator("#verdict")).to_have_text(
        "Poor match: 97 in 100 images here match another one better"
    )
    page.get_by_role("button", name="The query and its tools").click()
    expect(page.get_by_text("nearest are labelled “cyst”")).to_be_visible()


def test_on_a_phone_tools_lie_below_the_picture(page: sync_api.Page, pictures: list[Path]) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    choose(page, pictures[-1])
    page.get_by_role("button", name="The query and its tools").click()
    page.locator("#side").get_by_role("button", name="Window").click()
    picture = page.locator("#side .viewer-stage").bounding_box()
    row = page.locator("#side .viewer-row").bounding_box()
    signs = page.locator("#side .viewer-signs").bounding_box()
    assert picture
    assert row
    assert signs
    assert picture["height"] >= 150
    assert picture["y"] + picture["height"] <= row["y"]
    assert row["y"] + row["height"] <= signs["y"]


def test_on_a_phone_the_picture_stays_where_it_is_while_a_region_is_drawn(
    browser: sync_api.Browser, served: Served, pictures: list[Path]
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.goto(served.address)
    choose(page, pictures[-1])
    page.locator(".sheet-switch").tap()
    page.locator("#side").get_by_role("button", name="Measure").tap()
    page.locator("#side").get_by_role("button", name="Region").tap()
    whole = page.locator("#side .viewer-row").get_by_role("button", name="Whole image")
    expect(whole).to_be_disabled()
    box = page.locator("#side .viewer-stage").bounding_box()
    assert box
    touch = page.context.new_cdp_session(page)
    for kind, part in (("touchStart", 0.3), ("touchMove", 0.45), ("touchMove", 0.6)):
        point = {"x": box["x"] + part * box["width"], "y": box["y"] + part * box["height"]}
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
        page.wait_for_timeout(50)
        assert page.locator("#side .viewer-stage").bounding_box() == box
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.locator("#whole").wait_for()
    expect(whole).to_be_enabled()
    page.close()


def test_on_a_phone_the_open_query_leaves_the_note_in_view(page: sync_api.Page, pictures: list[Path]) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    choose(page, pictures[-1])
    page.get_by_role("button", name="The query and its tools").click()
    boxes = [page.locator(part).bounding_box() for part in ("header.top", ".query.open", ".foot")]
    bar, query, note = [(box["y"], box["y"] + box["height"]) for box in boxes if box]
    assert bar[1] <= query[0]
    assert query[1] <= note[0]
    assert note[1] <= 844


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of so many images that one in a hundred is one."""
    folder = tmp_path_factory.mktemp("hundred")
    write_phantoms(folder / "scans", COUNT)
    command("index", folder / "scans", "--collection", folder / "collection", "--jobs", "1")
    return folder / "collection"


def test_an_image_unlike_all_others_is_called_so(page: sync_api.Page, hundred: Path, tmp_path: Path) -> None:
    picture = np.zeros((200, 200, 3), np.uint8)
    picture[:, :STRIPES], picture[:, -STRIPES:], picture[80:120] = (0, 0, 255), (0, 255, 0), (255, 0, 0)
    cv2.imwrite(str(tmp_path / "flag.png"), picture)
    with serving(hundred) as served:
        page.goto(served.address)
        page.set_input_files("#file", tmp_path / "flag.png")
        settle(page)
        assert page.inner_text("#verdict") == "Nothing here looks like this"
        assert "least unlike" in page.inner_text(".verdict")
        page.locator("#columns .card").nth(1).press("y")
        with page.expect_response(SEARCHES):
            page.get_by_role("button", name="Refine").click()
        page.get_by_role("button", name="Undo round 1").wait_for()
        assert page.inner_text("#verdict") == "Nothing here looks like this"
        page.goto("about:blank")
    _, out, _ = command("search", tmp_path / "flag.png", "--collection", hundred)
    assert "nothing in the collection looks like the query image" in out
