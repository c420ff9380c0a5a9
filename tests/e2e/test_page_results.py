"""What a reader can do with the results on the page, by mouse and by keys."""

from pathlib import Path

import pytest
from playwright import sync_api

from tests.e2e.browsing import (
    become_expert,
    choose,
    crop_by_mouse,
    ids,
    key_of,
    settle,
    show,
    start,
    until,
    until_viewers,
    viewers,
)

# Comparing


def test_compare(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    answers = ids(page)
    page.locator("#columns .card").nth(1).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("heading", name="Result 2 of 8").wait_for()
    until_viewers(page, "viewer.picture?.size.width > 0")
    box = page.locator(".reading .viewer-stage").first.bounding_box()
    assert box
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.wheel(0, -240)
    until_viewers(page, "viewer.scale === 2")
    left, right = viewers(page, "viewer.place")
    assert left == right
    page.mouse.down()
    page.mouse.move(middle[0] - 30, middle[1] - 15, steps=3)
    page.mouse.up()
    moved = viewers(page, "viewer.place")
    assert moved[0] == moved[1] != left
    assert moved[0]["x"] == pytest.approx(-30 / box["width"], rel=0.05)

    page.keyboard.press("f")
    assert viewers(page, "viewer.flipped") == [False, True]
    page.keyboard.press("Shift+ArrowRight")
    assert viewers(page, "viewer.place")[1]["x"] < moved[0]["x"]
    page.keyboard.press("0")
    assert viewers(page, "viewer.scale") == [1, 1]
    page.keyboard.press("+")
    page.keyboard.press("-")
    assert viewers(page, "viewer.scale") == [1, 1]
    dialog.get_by_role("checkbox", name="Zoom").uncheck()
    page.locator(".reading .viewer-stage").first.focus()
    page.keyboard.press("+")
    assert viewers(page, "viewer.scale") == [1.25, 1]

    page.keyboard.press("ArrowRight")
    dialog.get_by_role("heading", name="Result 3 of 8").wait_for()
    assert viewers(page, "viewer.flipped") == [False, False]
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    dialog.get_by_role("heading", name="Result 1 of 8").wait_for()
    assert page.get_by_role("button", name="Previous result").is_disabled()
    page.keyboard.press("g")
    dialog.get_by_role("heading", name="Result 1–3 of 8").wait_for()
    assert len(viewers(page, "1")) == 4
    until_viewers(page, "viewer.picture?.size.width > 0")
    page.keyboard.press("g")
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    until(page, f"document.activeElement.dataset.image === '{answers[0]}'")


def test_search_from_the_comparison(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    third = ids(page)[2]
    page.locator("#columns .card").nth(2).press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Search with this image").click()
    page.wait_for_url(f"**/?image={third}")
    settle(page)
    assert not page.get_by_role("dialog").is_visible()


def test_metadata(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    card = page.locator("#columns .card").first
    card.press("Enter")
    page.keyboard.press("i")
    metadata = page.get_by_role("region", name="Metadata")
    metadata.get_by_text(str(card.get_attribute("data-image"))).wait_for()
    assert "severity" in metadata.inner_text()
    page.keyboard.press("ArrowRight")
    metadata.get_by_text(ids(page)[1]).wait_for()
    page.keyboard.press("i")
    assert not metadata.is_visible()


def test_the_region_is_framed_in_the_comparison(page: sync_api.Page) -> None:
    start(page)
    crop_by_mouse(page)
    page.wait_for_url("**region=*")
    settle(page)
    page.locator("#columns .card").first.click()
    until_viewers(page, "viewer.picture?.size.width > 0")
    size, marked = viewers(page, "viewer.picture.size")[0], viewers(page, "viewer.marked")[0]
    region = page.url.split("region=")[1].split("&")[0].replace("%2C", ",").split(",")
    pixels = [marked["x"] * size["width"], marked["y"] * size["height"]]
    assert pixels == pytest.approx(list(map(float, region[:2])))
    page.locator(".reading .viewer-marked").wait_for()


# Addresses


def test_address_of_a_file_says_that_the_image_is_not_in_it(
    page: sync_api.Page, pictures: list[Path]
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    become_expert(page)
    choose(page, pictures[-1])
    show(page, "Side by side")
    page.locator("[popovertarget=query-menu]").click()
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("not your image").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    assert page.url.endswith("?view=both")
    page.locator('[data-list="after"] .card').first.press("s")
    page.wait_for_url("**/?image=*")
    settle(page)
    assert not page.get_by_text("not your image").is_visible()
    page.goto(page.url)
    settle(page)
    assert page.get_by_role("radio", name="Side by side").is_checked()
    assert page.locator(".column").count() == 2


# Keyboard, colours


def test_letters(page: sync_api.Page, pictures: list[Path]) -> None:
    with page.expect_file_chooser() as chooser:
        page.evaluate("0")  # answered once the browser knows that a chooser is waited for
        page.keyboard.press("o")
    chooser.value.set_files(pictures[-1])
    settle(page)
    page.keyboard.press("e")  # expert
    page.keyboard.press("3")
    assert page.locator(".column").count() == 2
    page.keyboard.press("1")
    page.keyboard.press("g")
    assert page.evaluate("document.activeElement.dataset.image") == ids(page, "before")[0]
    for key, control in {"r": "rerank", "k": "k", "/": "box"}.items():
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press(key)
        assert key_of(page) == control
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("f")
    page.locator("#filter-menu").wait_for()


def test_another_number_of_results(page: sync_api.Page, pictures: list[Path]) -> None:
    become_expert(page)
    choose(page, pictures[-1])
    asked: list[str] = []
    page.on("request", lambda sent: asked.append(sent.url) if sent.url.endswith("/search") else None)
    page.locator("#k").fill("5")
    page.keyboard.press("Tab")
    until(page, "document.querySelectorAll('#columns:not([aria-busy]) .card').length === 5")
    page.locator("#k").fill("6")
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('#columns:not([aria-busy]) .card').length === 6")
    assert len(asked) == 2  # the order without re-ranking comes with the answer


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
    page.locator("#drop").wait_for()
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keyboard").wait_for()
    page.get_by_label("Use single keys as shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert key_of(page) != "box"
    page.reload()
    page.locator("#drop").wait_for()
    page.locator("[popovertarget=more]").click()
    page.get_by_role("button", name="Keyboard").click()
    assert not page.get_by_label("Use single keys as shortcuts").is_checked()


def test_colours_are_dark_first_and_light_by_choice(page: sync_api.Page) -> None:
    colours = "[document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]"
    page.emulate_media(color_scheme="light")
    page.locator("#drop").wait_for()
    name, dark = page.evaluate(colours)
    assert name == "dark"
    page.locator("[popovertarget=more]").click()
    page.get_by_role("button", name="Light colours").click()
    name, light = page.evaluate(colours)
    assert name == "light"
    assert light != dark
    page.reload()
    page.locator("#drop").wait_for()
    assert page.evaluate(colours) == ["light", light]
    page.keyboard.press("l")
    assert page.evaluate(colours) == ["dark", dark]
