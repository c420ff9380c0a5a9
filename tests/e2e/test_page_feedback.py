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
    page.keyboard.press("b")
    until(page, "document.querySelector('#judged').textContent === '1 relevant, 1 not relevant'")
    page.wait_for_selector("#columns:not([aria-busy]) .move")
    assert ids(page) == second
    page.keyboard.press("b")
    until(page, "document.querySelector('#rounds').hidden")
    page.wait_for_selector("#columns:not([aria-busy]) .move")
    assert ids(page) == first


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
