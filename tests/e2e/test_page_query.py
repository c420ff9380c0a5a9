"""What a reader can do with the query on the page: image, region, window, filters."""

from pathlib import Path

import pytest
from playwright import sync_api
from pydicom.data import get_testdata_file

from tests.e2e.browsing import (
    SETTLED,
    VIEWERS,
    choose,
    crop_by_mouse,
    ids,
    key_of,
    settle,
    until,
    until_viewers,
    viewers,
)
from tests.service.conftest import Served

PASTE = """bytes => {
    const clipboardData = new DataTransfer();
    clipboardData.items.add(new File([new Uint8Array(bytes)], "image.png"));
    document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}"""
RECORD = """() => {
    window.sent = [];
    const plain = window.fetch;
    window.fetch = (address, options) => {
        const fields = options.body instanceof FormData ? [...options.body].filter(([name]) => name !== "image") : [];
        sent.push([address, Object.fromEntries(fields)]);
        return plain(address, options);
    };
}"""


# Bringing an image in


def test_pasted_image(page: sync_api.Page, pictures: list[Path]) -> None:
    page.evaluate(PASTE, list(pictures[-1].read_bytes()))
    page.wait_for_selector(f"{SETTLED} .move")
    assert len(ids(page)) == 20
    page.get_by_text("Your image ·").wait_for()


def test_pasted_text_goes_where_the_caret_is(page: sync_api.Page) -> None:
    page.get_by_label("Only images with").focus()
    page.keyboard.insert_text("label=odd")
    assert page.get_by_label("Only images with").input_value() == "label=odd"
    assert page.locator("#start").is_visible()


def test_answer_dragged_to_the_query(page: sync_api.Page, served: Served) -> None:
    card = page.locator(".examples .card").nth(3)
    card.drag_to(page.locator("#drop"))
    page.wait_for_selector(f"{SETTLED} .move")
    assert page.url == f"{served.address}/?image={card.get_attribute('data-image')}"


# Cropping


def test_crop_with_the_mouse(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    whole = ids(page)
    page.evaluate(RECORD)
    crop_by_mouse(page)
    page.get_by_text("· region").wait_for()
    searched = [fields for address, fields in page.evaluate("sent") if address == "/v1/search"]
    x, y, width, height = map(int, searched[0]["region"].split(","))
    assert f"region {width} × {height} at {x}, {y}" in page.inner_text("#caption")
    page.wait_for_selector(f"{SETTLED} .move")
    assert ids(page) != whole
    page.get_by_role("button", name="Whole image").click()
    page.get_by_text("· region").wait_for(state="detached")
    page.wait_for_selector(f"{SETTLED} .move")
    assert ids(page) == whole
    assert not page.locator("#region").is_visible()


def test_a_click_is_no_region(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    page.locator("#crop:enabled").wait_for()
    page.locator("#drop").click(position={"x": 100, "y": 100})
    assert not page.locator("#region").is_visible()
    assert not page.locator("#columns").get_attribute("aria-busy")


def test_crop_with_the_keyboard(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    page.locator("#crop:enabled").wait_for()
    page.keyboard.press("c")
    assert key_of(page) == "region"
    before = page.locator("#region").bounding_box()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+ArrowDown")
    after = page.locator("#region").bounding_box()
    assert before
    assert after
    assert after["x"] < before["x"]
    assert after["height"] > before["height"]
    page.keyboard.press("Escape")
    assert not page.locator("#region").is_visible()
    page.keyboard.press("c")
    page.keyboard.press("Enter")
    page.get_by_text("· region").wait_for()


def test_crop_of_an_image_of_the_collection_can_be_shared(page: sync_api.Page) -> None:
    page.locator(".examples .card").first.click()
    page.wait_for_selector(f"{SETTLED} .move")
    crop_by_mouse(page)
    page.wait_for_url("**region=*")
    page.wait_for_selector(f"{SETTLED} .move")
    page.get_by_text("· region").wait_for()
    found, caption = ids(page), page.inner_text("#caption")
    page.goto(page.url)
    page.wait_for_selector(f"{SETTLED} .move")
    page.get_by_text("· region").wait_for()
    assert ids(page) == found
    assert page.inner_text("#caption") == caption
    assert page.locator("#region").is_visible()


# Windows


def test_window_of_a_scan(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, Path(str(get_testdata_file("CT_small.dcm"))))
    page.get_by_role("group", name="Window").wait_for()
    before = page.locator("#picture").get_attribute("src")
    center = page.get_by_role("slider", name="Center")
    assert page.locator("#center-shown").inner_text() == center.input_value()
    found = ids(page)
    page.evaluate(RECORD)
    page.get_by_role("slider", name="Width").fill("200")
    until(page, f"document.getElementById('picture').src !== '{before}'")
    page.wait_for_selector(f"{SETTLED} .move")
    assert page.locator("#width-shown").inner_text() == "200"
    searched = [fields for address, fields in page.evaluate("sent") if address == "/v1/search"]
    assert searched[0]["window"] == f"{center.input_value()},200"
    page.get_by_role("button", name="Default of the file").click()
    until(page, "document.getElementById('width').value !== '200'")
    page.wait_for_selector(f"{SETTLED} .move")
    assert ids(page) == found
    choose(page, pictures[-1])
    page.get_by_text("Your image ·").wait_for()
    assert not page.get_by_role("group", name="Window").is_visible()


# Filters


def test_filters_are_offered_with_counts_and_taken_away(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    options = page.locator("#add-filter optgroup[label=label] option").all_text_contents()
    assert sorted(options) == ["even (15)", "odd (15)"]
    page.get_by_role("combobox", name="Filter").select_option("label=odd")
    settle(page)
    assert set(page.locator(".column .label").all_text_contents()) == {"odd"}
    assert page.get_by_label("Only images with").input_value() == "label=odd"
    assert "where=label%3Dodd" in page.url
    page.get_by_role("button", name="Remove the filter label=odd").click()
    until(page, "new Set([...document.querySelectorAll('.column .label')].map(e => e.textContent)).size > 1")
    assert "where" not in page.url


def test_nothing_fits_then_search_without_filters(page: sync_api.Page) -> None:
    page.locator(".examples .card").first.click()
    page.wait_for_selector(f"{SETTLED} .move")
    page.get_by_label("Only images with").fill("label=nobody")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="No results").wait_for()
    page.get_by_role("button", name="Search without filters").click()
    page.wait_for_selector(f"{SETTLED} .move")
    assert page.get_by_label("Only images with").input_value() == ""


# When something is wrong


def test_busy_service_then_try_again(page: sync_api.Page, pictures: list[Path], tolerated: list[str]) -> None:
    tolerated.append("429")
    body = '{"type": "about:blank", "title": "Too Many Requests", "status": 429, "detail": "try again in a moment"}'
    page.route("**/v1/search", lambda route: route.fulfill(status=429, body=body))
    page.set_input_files("#file", pictures[-1])
    page.get_by_role("heading", name="The service is busy").wait_for()
    page.unroute("**/v1/search")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector(f"{SETTLED} .move")


def test_large_file(page: sync_api.Page, tmp_path: Path) -> None:
    most = int(page.locator("#query").get_attribute("data-max-upload-bytes") or 0)
    with (tmp_path / "large.png").open("wb") as file:
        file.truncate(most + 1)
    page.set_input_files("#file", tmp_path / "large.png")
    page.get_by_role("heading", name="The file is too large").wait_for()
    assert f"the limit is {most // 2**20} MiB" in page.inner_text("#problem")
    assert not page.get_by_role("button", name="Try again").is_visible()


def test_windows_for_ct_on_the_query_and_in_the_comparison(page: sync_api.Page) -> None:
    choose(page, Path(str(get_testdata_file("CT_small.dcm"))))
    page.get_by_role("button", name="Lung").wait_for()
    page.keyboard.press("6")  # bone
    until(page, "document.getElementById('center').value === '480'")
    page.wait_for_selector(f"{SETTLED} .move")
    picture = page.locator("#drop").bounding_box()
    assert picture
    page.mouse.move(picture["x"] + 100, picture["y"] + 100)
    page.mouse.down(button="right")
    page.mouse.move(picture["x"] + 60, picture["y"] + 120, steps=3)
    page.mouse.up(button="right")
    page.wait_for_selector(f"{SETTLED} .move")
    assert float(page.locator("#width").input_value()) < 2500
    assert float(page.locator("#center").input_value()) > 480
    assert not page.locator("#region").is_visible()
    page.locator(".column .card").first.click()
    dialog = page.get_by_role("dialog")
    until_viewers(page, "viewer.picture")
    dragged = viewers(page, "viewer.shownWindow")
    assert dragged[0] == pytest.approx(
        [float(page.locator(part).input_value()) for part in ("#center", "#width")], rel=0.01
    )
    stage = page.locator(".reading .viewer-stage").first
    stage.focus()
    page.keyboard.press("d")
    dialog.get_by_role("button", name="Liver").click()
    assert viewers(page, "viewer.window")[0] == [90, 150]
    assert viewers(page, "viewer.shownWindow")[1] == dragged[1]  # a PNG has no Hounsfield units
    dialog.get_by_role("button", name="Invert").click()
    assert viewers(page, "viewer.inverted") == [True, False]
    stage.focus()
    page.keyboard.press("z")
    dialog.get_by_role("button", name="1:1").click()
    assert viewers(page, "viewer.scale")[0] != 1
    dialog.get_by_role("button", name="Fit").click()
    assert viewers(page, "viewer.scale") == [1, 1]
    stage.focus()
    page.keyboard.press("m")
    pane = stage.bounding_box()
    assert pane
    middle = pane["x"] + pane["width"] / 2, pane["y"] + pane["height"] / 2
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] + 50, middle[1], steps=2)
    page.mouse.up()
    pixels = 50 * 128 / min(pane["width"], pane["height"])  # of an image of 128 x 128, with 0.661 mm a pixel
    length = viewers(page, "viewer.measured.textContent")[0]
    assert length.endswith(" mm")
    assert abs(float(length.split()[0]) - pixels * 0.661468) < 0.2
    page.keyboard.press("+")
    assert viewers(page, "viewer.measured.textContent")[0] == length  # measurements stay
    page.keyboard.press("Delete")
    until(page, f"{VIEWERS}[0].measured.textContent === ''")
