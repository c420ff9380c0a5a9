"""Judging answers on the page, round after round and back."""

from pathlib import Path

import pytest
from playwright import sync_api

from tests.e2e.browsing import choose, ids, settle, until
from tests.e2e.test_page_axe import AXE, complaints


def judge(page: sync_api.Page, place: int, key: str) -> str:
    card = page.locator(".column .card").nth(place)
    card.press(key)
    return str(card.get_attribute("data-image"))


def learn(page: sync_api.Page) -> None:
    before = page.locator("#summary").inner_text()
    page.keyboard.press("j")
    settle(page)
    page.wait_for_selector("#columns:not([aria-busy]) .move")
    assert before != page.locator("#summary").inner_text()


def rounds(page: sync_api.Page) -> list[str]:
    return page.locator("#round-list li").all_inner_texts()


def test_rounds_by_keyboard_and_back(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    first = ids(page)
    no, yes = judge(page, 0, "n"), judge(page, 5, "y")
    assert page.locator("#judged").inner_text() == "1 relevant, 1 not relevant"
    learn(page)
    second = ids(page)
    assert second[0] == yes
    assert no not in second
    assert f"-{no}" in page.url
    assert page.get_by_role("button", name="Search with judgements").is_disabled()
    judge(page, 1, "y")
    learn(page)
    assert set(ids(page)[:2]) == {yes, second[1]}
    assert rounds(page) == ["Round 1 · 2 judged ×", "Round 2 · 1 judged ×"]
    page.keyboard.press("b")
    until(page, "document.querySelectorAll('#round-list li').length === 1")
    page.wait_for_selector("#columns:not([aria-busy]) .move")
    assert ids(page) == second
    assert (
        page.locator("#judged").inner_text() == "2 relevant, 1 not relevant"
    )  # the marks stay, for another try
    page.keyboard.press("b")
    until(page, "document.querySelector('#round-list').hidden")
    page.wait_for_selector("#columns:not([aria-busy]) .move")
    assert ids(page) == first
    assert page.locator("#judged").inner_text() == "1 relevant, 1 not relevant"


def test_a_round_is_undone(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    no = judge(page, 0, "n")
    learn(page)
    yes = judge(page, 4, "y")
    learn(page)
    page.get_by_role("button", name="Undo round 1, 1 judged").click()
    settle(page)
    assert rounds(page) == ["Round 1 · 1 judged ×"]
    assert page.locator("#judged").inner_text() == "1 relevant, 0 not relevant"
    assert no in ids(page)
    assert ids(page)[0] == yes


def test_judging_while_comparing(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    page.locator(".column .card").first.click()
    dialog = page.get_by_role("dialog")
    page.keyboard.press("y")
    relevant = dialog.locator("[data-mark=relevant]")
    assert relevant.get_attribute("aria-pressed") == "true"
    page.keyboard.press("ArrowRight")
    assert relevant.get_attribute("aria-pressed") == "false"
    dialog.get_by_role("button", name="Not relevant: ").click()
    page.keyboard.press("Escape")
    assert page.locator("#judged").inner_text() == "1 relevant, 1 not relevant"


def test_the_bar_of_judgements_stays_in_sight(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    page.set_viewport_size({"width": 390, "height": 700})
    judge(page, 18, "y")
    box = page.get_by_role("button", name="Search with judgements").bounding_box()
    assert box
    assert 0 <= box["y"] < 200


def test_buttons_and_a_mark_taken_back(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    card = page.locator(".column li").first
    card.hover()
    relevant = card.get_by_role("button", name="Relevant:")
    relevant.filter(has_text="✓").click()
    assert relevant.filter(has_text="✓").get_attribute("aria-pressed") == "true"
    card.get_by_role("button", name="Not relevant").click()
    assert relevant.filter(has_text="✓").get_attribute("aria-pressed") == "false"
    card.get_by_role("button", name="Not relevant").click()
    assert page.locator("#rounds").is_hidden()


def test_an_address_carries_what_was_judged(page: sync_api.Page, pictures: list[Path]) -> None:
    page.locator(".examples .card").first.click()
    page.wait_for_selector("#columns:not([aria-busy]) .move")
    judge(page, 3, "y")
    learn(page)
    found, address = ids(page), page.url
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("#columns:not([aria-busy]) .move")
    assert ids(page) == found
    assert page.locator("#judged").inner_text() == "1 relevant, 0 not relevant"
    page.get_by_role("button", name="Clear judgements").click()
    until(page, "document.querySelector('#rounds').hidden")


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core; see test_page_axe.py")
def test_accessible_with_judgements(page: sync_api.Page, pictures: list[Path]) -> None:
    page.emulate_media(reduced_motion="reduce")
    choose(page, pictures[-1])
    judge(page, 0, "y")
    judge(page, 1, "n")
    assert complaints(page) == []
    learn(page)
    assert complaints(page) == []
