"""Judging answers on the page, round after round and back."""

from pathlib import Path

import pytest
from playwright import sync_api

from tests.e2e.browsing import choose, ids, settle, start, until
from tests.e2e.test_page_axe import AXE, complaints


@pytest.fixture(autouse=True)
def every_image(page: sync_api.Page) -> None:
    page.goto(f"{page.url}?group_by=image")
    page.locator("#drop").wait_for()


def judge(page: sync_api.Page, place: int, key: str) -> str:
    card = page.locator("#columns .card").nth(place)
    image = str(card.get_attribute("data-image"))
    card.press(key)
    return image


def learn(page: sync_api.Page) -> None:
    with page.expect_response("**/search"):
        page.keyboard.press("j")
    settle(page)


def rounds(page: sync_api.Page) -> list[str]:
    return [" ".join(text.split()) for text in page.locator("#rounds ol li").all_inner_texts()]


def test_rounds_by_keyboard_and_back(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    assert page.locator("#rounds").count() == 0
    first = ids(page)
    no, yes = judge(page, 0, "n"), judge(page, 5, "y")
    assert page.inner_text("#judged") == "1 like this, 1 not"
    learn(page)
    second = ids(page)
    assert second[0] == yes
    assert no not in second
    assert page.get_by_role("button", name="Refine").is_disabled()
    judge(page, 1, "y")
    learn(page)
    assert set(ids(page)[:2]) == {yes, second[1]}
    assert rounds(page) == ["Round 1 · 2 ×", "Round 2 · 1 ×"]
    page.keyboard.press("b")
    until(page, "document.querySelectorAll('#rounds ol li').length === 1")
    settle(page)
    assert ids(page) == second
    assert page.inner_text("#judged") == "2 like this, 1 not"  # the marks stay, for another try
    page.keyboard.press("b")
    until(page, "!document.querySelector('#rounds ol')")
    settle(page)
    assert ids(page) == first
    assert page.inner_text("#judged") == "1 like this, 1 not"


def test_a_reload_that_loses_a_file_loses_its_judgements(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    judge(page, 1, "y")
    learn(page)
    assert rounds(page)
    page.reload()
    page.locator("#drop").wait_for()
    assert page.locator("#rounds").count() == 0


def test_a_round_is_undone(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    no = judge(page, 0, "n")
    learn(page)
    yes = judge(page, 4, "y")
    learn(page)
    page.get_by_role("button", name="Undo round 1, 1 judged").click()
    settle(page)
    assert rounds(page) == ["Round 1 · 1 ×"]
    assert page.inner_text("#judged") == "1 like this"
    assert no in ids(page)
    assert ids(page)[0] == yes


def test_judging_while_comparing(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    page.locator("#columns .card").first.click()
    page.keyboard.press("y")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("n")
    page.keyboard.press("Escape")
    assert page.inner_text("#judged") == "1 like this, 1 not"


@pytest.mark.parametrize("width", [390, 1280])
def test_the_bar_of_judgements_stays_in_sight(page: sync_api.Page, pictures: list[Path], width: int) -> None:
    choose(page, pictures[-1])
    page.set_viewport_size({"width": width, "height": 700})
    judge(page, 18, "y")
    box = page.get_by_role("button", name="Refine").bounding_box()
    assert box
    assert box["y"] + box["height"] <= 700


def test_buttons_and_a_mark_taken_back(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    card = page.locator("#columns li").first
    card.hover()
    like, unlike = (
        card.get_by_role("button", name="Like this:", exact=False),
        card.get_by_role("button", name="Not like"),
    )
    like.first.click()
    assert like.first.get_attribute("aria-pressed") == "true"
    unlike.click()
    assert like.first.get_attribute("aria-pressed") == "false"
    unlike.click()
    assert page.locator("#rounds").count() == 0


def test_an_address_carries_what_was_judged(page: sync_api.Page) -> None:
    start(page)
    judge(page, 3, "y")
    learn(page)
    found, address = ids(page), page.url
    page.goto("about:blank")
    page.goto(address)
    settle(page)
    assert ids(page) == found
    assert page.inner_text("#judged") == "1 like this"
    page.get_by_role("button", name="Clear").click()
    until(page, "!document.querySelector('#rounds')")


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core; see test_page_axe.py")
def test_accessible_with_judgements(page: sync_api.Page, pictures: list[Path]) -> None:
    page.emulate_media(reduced_motion="reduce")
    choose(page, pictures[-1])
    judge(page, 0, "y")
    judge(page, 1, "n")
    assert complaints(page) == []
    learn(page)
    assert complaints(page) == []
