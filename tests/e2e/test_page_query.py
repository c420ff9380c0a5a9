"""What a reader can do with the query on the page: image, region, window, filters."""

from pathlib import Path

import pytest
from playwright import sync_api
from pydicom.data import get_testdata_file

from tests.e2e.browsing import (
    VIEWER,
    VIEWERS,
    choose,
    crop_by_mouse,
    ids,
    see_query,
    settle,
    start,
    titles,
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
PASTE_TEXT = """text => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", text);
    document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}"""


def region_of(page: sync_api.Page) -> tuple[int, ...]:
    """The region of the address of the page."""
    text = page.url.split("region=")[1].split("&")[0].replace("%2C", ",")
    return tuple(map(int, text.split(",")))


# Bringing an image in


def test_pasted_image(page: sync_api.Page, pictures: list[Path]) -> None:
    page.evaluate(PASTE, list(pictures[-1].read_bytes()))
    settle(page)
    see_query(page)
    assert len(ids(page)) == 8


def test_pasted_id_and_link(page: sync_api.Page, served: Served) -> None:
    image, other = (str(card.get_attribute("data-image")) for card in page.locator("#start .card").all()[:2])
    page.evaluate(PASTE_TEXT, image)
    page.wait_for_url(f"**/?image={image}")
    settle(page)
    page.evaluate(PASTE_TEXT, f"{served.address}/?image={other}&k=3")
    page.wait_for_url(f"**/?image={other}&k=3")
    settle(page)
    assert len(ids(page)) == 3
    page.evaluate(PASTE_TEXT, f"{served.address}/v1/images/{image}/thumbnail")
    page.wait_for_url(f"**/?image={image}**")
    settle(page)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("https://example.org/scan.png", "Copy the picture there and paste it here"),
        ("1.2.840.113619.2.55.3", "No study of this collection has the UID"),
        ("0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"),
    ],
)
def test_what_cannot_be_opened_says_why(
    page: sync_api.Page, tolerated: list[str], text: str, reason: str
) -> None:
    tolerated.append("404")
    page.evaluate(PASTE_TEXT, text)
    page.get_by_role("alert").get_by_text(reason).wait_for()


def test_words_where_they_cannot_be_searched(page: sync_api.Page) -> None:
    page.locator("#box").fill("broken hand")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Words cannot be searched here").wait_for()


def test_the_box_of_another_page(page: sync_api.Page, served: Served) -> None:
    image = page.locator("#start .card").first.get_attribute("data-image")
    page.goto(f"{served.address}/browse")
    page.get_by_role("searchbox", name="Search", exact=True).fill(str(image))
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/?image={image}")
    settle(page)


def test_answer_dragged_to_the_query(page: sync_api.Page, served: Served) -> None:
    card = page.locator("#start .card").nth(2)
    image = card.get_attribute("data-image")
    card.drag_to(page.locator("#drop"))
    page.wait_for_url(f"{served.address}/?image={image}")
    settle(page)


# Over a reload


@pytest.mark.parametrize("kept", [True, False])
def test_a_reload_keeps_the_query_and_marks_if_wanted(
    page: sync_api.Page, pictures: list[Path], kept: bool
) -> None:
    if kept:
        page.evaluate("document.getElementById('keep').click()")
    choose(page, pictures[-1])
    found = ids(page)
    page.locator("#columns .card").nth(1).press("y")
    page.wait_for_timeout(300)  # until it is stored
    page.reload()
    if not kept:
        page.locator("#drop").wait_for()
        page.wait_for_timeout(300)
        assert page.locator("#columns").count() == 0
        return
    settle(page)
    see_query(page)
    assert ids(page) == found
    assert page.inner_text("#judged") == "1 like this"
    page.locator("[popovertarget=query-menu]").click()
    page.get_by_role("button", name="New search").click()
    page.wait_for_timeout(300)
    page.reload()
    page.locator("#drop").wait_for()


# Regions


def test_crop_with_the_mouse(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    whole = ids(page)
    with page.expect_response("**/search"):
        crop_by_mouse(page)
    settle(page)
    page.get_by_text("Only the region is searched").wait_for()
    page.get_by_text("the whole image finds more").wait_for()  # no cells are stored
    assert ids(page) != whole
    assert page.locator("#verdict, #agreement").count() == 0  # which are of whole images
    assert page.evaluate(f"{VIEWER}.tool") == "region"
    page.get_by_role("button", name="Whole image").click()
    settle(page)
    until(page, f"{VIEWER}.region === null")
    assert ids(page) == whole
    choose(page, pictures[0])
    assert page.evaluate(f"{VIEWER}.tool") == "zoom"  # a drag in another picture moves it
    assert page.locator("#side .viewer-row").count() == 0


def test_a_click_is_no_region(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    see_query(page)
    page.locator("#side").get_by_role("button", name="Region").click()
    page.locator("#side .viewer-stage").click(position={"x": 100, "y": 150})
    assert page.evaluate(f"{VIEWER}.region") is None
    assert not page.locator("#columns").get_attribute("aria-busy")


def test_crop_of_an_image_of_the_collection_can_be_shared(page: sync_api.Page) -> None:
    start(page)
    crop_by_mouse(page)
    page.wait_for_url("**region=*")
    settle(page)
    found, region = ids(page), region_of(page)
    page.goto(page.url)
    settle(page)
    see_query(page)
    assert ids(page) == found
    until(page, f"{VIEWER}.region !== null")
    shown, size = page.evaluate(f"[{VIEWER}.region, {VIEWER}.picture.size]")
    assert shown["width"] * size["width"] == pytest.approx(region[2])


# Windows


def test_window_of_a_scan(page: sync_api.Page) -> None:
    choose(page, Path(str(get_testdata_file("CT_small.dcm"))))
    see_query(page)
    page.locator("#side .viewer-stage").focus()
    page.keyboard.press("6")  # bone
    until(page, f"String({VIEWER}.shownWindow) === '480,2500'")
    page.evaluate(
        """() => {
            window.windows = [];
            const plain = XMLHttpRequest.prototype.send;
            XMLHttpRequest.prototype.send = function (body) {
                windows.push(body.get("window"));
                return plain.call(this, body);
            };
        }"""
    )
    page.get_by_role(
        "button", name="Search in this window"
    ).click()  # until then it changes the picture alone
    settle(page)
    assert page.evaluate("windows") == ["480,2500"]
    assert page.get_by_role("button", name="Search in this window").count() == 0


# Filters


def test_filters_are_offered_with_counts_and_taken_away(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    page.locator("#add-filter").click()
    options = page.locator("#filter-menu .check:has([data-condition^='label=']):visible").all_inner_texts()
    assert sorted(" ".join(text.split()) for text in options) == ["even 15", "odd 15"]
    page.get_by_role("checkbox", name="odd").check()
    settle(page)
    assert titles(page) == {"odd"}
    assert "where=label%3Dodd" in page.url
    assert page.inner_text("#tally").endswith("of 15")
    assert page.inner_text("#agreement").endswith("their labels are no evidence.")
    page.get_by_role("button", name="Done").click()
    assert page.locator("#filter-menu").is_hidden()
    page.get_by_role("button", name="Remove the filter label=odd").click()
    settle(page)
    assert titles(page) == {"even", "odd"}
    assert "where" not in page.url


@pytest.mark.parametrize("touch", [False, True], ids=["mouse", "finger"])
def test_a_press_beside_a_menu_closes_it_and_does_nothing_else(
    browser: sync_api.Browser, served: Served, pictures: list[Path], touch: bool
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844}, has_touch=touch, is_mobile=touch)
    page.goto(served.address)
    choose(page, pictures[-1])
    card = page.locator("#columns .card").nth(4)
    card.scroll_into_view_if_needed()
    box = card.bounding_box()
    assert box
    press = page.touchscreen.tap if touch else page.mouse.click
    page.locator("#group").click()
    assert page.locator("#group-menu").is_visible()
    press(box["x"] + 20, box["y"] + 20)
    page.locator("#group-menu").wait_for(state="hidden")
    page.wait_for_timeout(200)
    assert page.locator(".reading").count() == 0
    press(box["x"] + 20, box["y"] + 20)
    page.locator(".reading").wait_for()
    page.close()


def test_nothing_fits_then_search_without_filters(page: sync_api.Page) -> None:
    start(page)
    page.locator("#add-filter").click()
    page.locator("#where").fill("label=nobody")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="No results").wait_for()
    assert "label=nobody" in page.inner_text("#nothing")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Search without filters").click()
    settle(page)
    assert page.locator("[data-condition].pill").count() == 0


def test_a_filter_with_a_typing_error_keeps_the_results(page: sync_api.Page, tolerated: list[str]) -> None:
    tolerated.append("422")
    start(page)
    found = ids(page)
    page.locator("#add-filter").click()
    page.locator("#where").fill("labell=odd")
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for()
    assert "did you mean" in page.inner_text("#problem").lower()
    assert ids(page) == found


# When something is wrong


def test_busy_service_then_try_again(page: sync_api.Page, pictures: list[Path], tolerated: list[str]) -> None:
    tolerated.append("429")
    body = '{"type": "about:blank", "title": "Too Many Requests", "status": 429, "detail": "try again in a moment"}'
    page.route("**/search", lambda route: route.fulfill(status=429, body=body))
    page.set_input_files("#file", pictures[-1])
    page.get_by_role("heading", name="The service is busy").wait_for()
    page.unroute("**/search")
    page.get_by_role("button", name="Try again").click()
    settle(page)


def test_large_file(page: sync_api.Page, tmp_path: Path) -> None:
    most = page.evaluate("JSON.parse(document.getElementById('search').dataset.facts).max_upload_bytes")
    with (tmp_path / "large.png").open("wb") as file:
        file.truncate(most + 1)
    page.set_input_files("#file", tmp_path / "large.png")
    page.get_by_role("heading", name="The file is too large").wait_for()
    assert f"the limit is {most // 2**20} MiB" in page.inner_text("#problem")
    assert not page.get_by_role("button", name="Try again").is_visible()


def test_frames_beside_a_picture_that_is_alone_say_why_they_move_alone(page: sync_api.Page) -> None:
    choose(page, Path(str(get_testdata_file("SC_rgb_rle_2frame.dcm"))))
    see_query(page)
    page.locator("#columns .card").first.click()
    until_viewers(page, "viewer.picture")
    assert viewers(page, "viewer.count > 1") == [True, False]
    sync_api.expect(page.locator(".reading-link")).to_contain_text(
        "only one of these pictures belongs to a series"
    )
    sync_api.expect(page.get_by_role("dialog").get_by_role("checkbox", name="Window")).to_be_enabled()


def test_windows_for_ct_on_the_query_and_in_the_comparison(page: sync_api.Page) -> None:
    choose(page, Path(str(get_testdata_file("CT_small.dcm"))))
    see_query(page)
    picture = page.locator("#side .viewer-stage").bounding_box()
    assert picture
    page.mouse.move(picture["x"] + 100, picture["y"] + 200)
    page.mouse.down(button="right")
    page.mouse.move(picture["x"] + 60, picture["y"] + 220, steps=3)
    page.mouse.up(button="right")
    shown = page.evaluate(f"{VIEWER}.shownWindow")
    assert page.evaluate(f"{VIEWER}.window !== null")
    page.locator("#columns .card").first.click()
    dialog = page.get_by_role("dialog")
    until_viewers(page, "viewer.picture")
    together = dialog.get_by_role("checkbox", name="Window")
    sync_api.expect(together).to_be_disabled()
    sync_api.expect(page.locator(".reading-link")).to_contain_text("have different units")
    dragged = viewers(page, "viewer.shownWindow")
    assert dragged[0] == pytest.approx(shown, rel=0.01)
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
    reset = dialog.get_by_role("button", name="Reset")
    sync_api.expect(reset).to_have_count(1)  # that of the other picture is gone with the next frame
    reset.click()
    assert viewers(page, "[viewer.window, viewer.inverted]") == [[None, False]] * 2
    sync_api.expect(reset).to_have_count(0)
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
