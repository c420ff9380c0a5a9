"""Everything a reader can do on the page, by mouse and by keys."""

from pathlib import Path

import pytest
from playwright import sync_api
from pydicom.data import get_testdata_file

from tests.e2e.browsing import SETTLED, choose, ids, key_of, settle, show, until
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


def crop_by_mouse(page: sync_api.Page, start: float = 0.3, end: float = 0.7) -> None:
    """Drag from one part of the picture to another, both from 0 to 1."""
    page.locator("#crop:enabled").wait_for()
    box = page.locator("#drop").bounding_box()
    assert box
    page.mouse.move(box["x"] + start * box["width"], box["y"] + start * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], box["y"] + end * box["height"], steps=4)
    page.mouse.up()


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


# Comparing


def test_compare(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    answers = ids(page)
    page.locator(".column .card").nth(1).click()
    dialog = page.get_by_role("dialog")
    assert "rank 2 of 20" in dialog.get_by_role("heading").inner_text()
    until(page, "['left', 'right'].every(id => document.getElementById(id).naturalWidth > 0)")
    until(page, "document.getElementById('right').src.endsWith('/picture')")
    transforms = "['left', 'right'].map(id => document.getElementById(id).style.transform.trim())"

    pane = page.locator(".pane").first.bounding_box()
    assert pane
    page.mouse.move(pane["x"] + 20, pane["y"] + 20)
    page.mouse.wheel(0, -240)
    until(page, "document.getElementById('zoom').innerText === '200 %'")
    left, right = page.evaluate(transforms)
    assert left == right
    assert "scale(2)" in left
    page.mouse.down()
    page.mouse.move(pane["x"] + 5, pane["y"] + 5, steps=3)
    page.mouse.up()
    moved = page.evaluate(transforms)
    assert moved[0] == moved[1] != left

    page.keyboard.press("f")
    assert page.get_by_role("button", name="Flip result").get_attribute("aria-pressed") == "true"
    left, right = page.evaluate(transforms)
    assert right == f"{left} scaleX(-1)"
    page.keyboard.press("Shift+ArrowRight")
    assert page.evaluate(transforms)[0] != left
    page.keyboard.press("0")
    assert page.inner_text("#zoom") == "100 %"
    page.keyboard.press("+")
    page.keyboard.press("-")
    assert page.inner_text("#zoom") == "100 %"

    page.keyboard.press("ArrowRight")
    assert "rank 3 of 20" in dialog.get_by_role("heading").inner_text()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert "rank 1 of 20" in dialog.get_by_role("heading").inner_text()
    assert page.get_by_role("button", name="Previous result").is_disabled()
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    until(page, f"document.activeElement.dataset.image === '{answers[0]}'")


def test_search_from_the_comparison(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    third = ids(page)[2]
    page.locator(".column .card").nth(2).press("Enter")
    page.get_by_role("link", name="Search with this image").click()
    page.wait_for_url(f"**/?image={third}")
    page.wait_for_selector(f"{SETTLED} .move")
    assert not page.get_by_role("dialog").is_visible()


def test_metadata(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    card = page.locator(".column .card").first
    card.hover()
    page.locator(".column [data-act=about]").first.click()
    metadata = page.get_by_role("region", name="Metadata")
    metadata.get_by_text(str(card.get_attribute("data-image"))).wait_for()
    assert "severity" in metadata.inner_text()
    page.keyboard.press("ArrowRight")
    metadata.get_by_text(ids(page)[1]).wait_for()
    page.keyboard.press("i")
    assert not metadata.is_visible()


def test_the_region_is_what_is_compared(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    crop_by_mouse(page)
    page.get_by_text("· region").wait_for()
    page.wait_for_selector(f"{SETTLED} .move")
    page.locator(".column .card").first.click()
    page.get_by_role("dialog").wait_for()
    until(page, "document.getElementById('left').naturalWidth > 0")
    width = page.evaluate("document.getElementById('left').naturalWidth")
    assert f"region {width} ×" in page.inner_text("#left-words")


# Recent queries, addresses


def test_recent_queries(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    page.get_by_text("Your image ·").wait_for()
    first = ids(page)
    page.locator(".column .card").first.press("s")
    page.wait_for_url("**/?image=*")
    page.wait_for_selector(f"{SETTLED} .move")
    recent = page.get_by_role("region", name="Recent queries").get_by_role("listitem")
    until(page, "document.querySelectorAll('#recent-list li').length === 2")
    recent.nth(1).get_by_role("button").click()
    page.get_by_text("Your image ·").wait_for()
    page.wait_for_selector(f"{SETTLED} .move")
    assert ids(page) == first
    assert recent.count() == 2
    page.reload()  # what was a file is gone with the page, the image of the collection stays
    until(page, "document.querySelectorAll('#recent-list li').length === 1")
    page.get_by_role("button", name="Clear").click()
    assert not page.get_by_role("region", name="Recent queries").is_visible()
    page.reload()
    assert not page.get_by_role("region", name="Recent queries").is_visible()


def test_address_of_a_file_says_that_the_image_is_not_in_it(
    page: sync_api.Page, pictures: list[Path]
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    choose(page, pictures[-1])
    show(page, "Side by side")
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("not your image").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    assert page.url.endswith("?view=both")
    page.locator('section[aria-label="After re-ranking"] .card').first.press("s")
    page.wait_for_url("**/?image=*")
    page.wait_for_selector(f"{SETTLED} .move")
    assert not page.get_by_text("not your image").is_visible()
    page.goto(page.url)
    page.wait_for_selector(f"{SETTLED} .move")
    assert page.get_by_role("radio", name="Side by side").is_checked()
    assert page.locator(".column").count() == 2


# Keyboard, colours


def test_letters(page: sync_api.Page, pictures: list[Path]) -> None:
    with page.expect_file_chooser() as chooser:
        page.evaluate("0")  # answered once the browser knows that a chooser is waited for
        page.keyboard.press("o")
    chooser.value.set_files(pictures[-1])
    page.wait_for_selector(f"{SETTLED} .move")
    page.keyboard.press("3")
    assert page.locator(".column").count() == 2
    page.keyboard.press("1")
    page.keyboard.press("g")
    assert page.evaluate("document.activeElement.dataset.image") == ids(page, "Before re-ranking")[0]
    for key, control in {"r": "rerank", "f": "add-filter", "k": "k"}.items():
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press(key)
        assert key_of(page) == control


def test_arrows_go_through_the_answers(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    answers = ids(page)
    focused = "document.activeElement.dataset.image"
    page.keyboard.press("g")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused) == answers[1]
    page.keyboard.press("ArrowDown")
    row = answers.index(page.evaluate(focused)) - 1
    assert row > 1
    page.keyboard.press("ArrowUp")
    assert page.evaluate(focused) == answers[1]
    page.keyboard.press("End")
    assert page.evaluate(focused) == answers[-1]
    page.keyboard.press("Home")
    assert page.evaluate(focused) == answers[0]


def test_help_and_letters_switched_off(page: sync_api.Page) -> None:
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keyboard").wait_for()
    page.get_by_label("Use single keys as shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    assert key_of(page) != "rerank"
    page.reload()
    page.get_by_role("button", name="Keyboard").click()
    assert not page.get_by_label("Use single keys as shortcuts").is_checked()


@pytest.mark.parametrize("system", ["dark", "light"])
def test_colours(page: sync_api.Page, system: str) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(ground)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(ground)
    assert dark != light
    page.emulate_media(color_scheme="dark" if system == "dark" else "light")
    page.get_by_role("button", name="Colours: system").click()
    assert page.evaluate(ground) == dark
    page.reload()
    assert page.evaluate(ground) == dark
    page.keyboard.press("l")
    assert page.evaluate(ground) == light
    page.keyboard.press("l")
    assert page.evaluate(ground) == (dark if system == "dark" else light)


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
    page.get_by_role("heading", name="The image is too large").wait_for()
    assert f"{most // 2**20} MiB" in page.inner_text("#problem")
    assert not page.get_by_role("button", name="Try again").is_visible()
