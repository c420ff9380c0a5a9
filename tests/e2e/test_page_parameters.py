"""Parameters of the re-ranker on the page: by keyboard, in the address, within bounds, with judgements."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright import sync_api

from tests.e2e.browsing import SETTLED, choose, key_of
from tests.e2e.test_page_axe import AXE, complaints

SEARCHES = "**/v1/search"


def select(page: sync_api.Page, name: str) -> None:
    page.get_by_role("combobox", name="Re-ranking").select_option(name)


def sent(page: sync_api.Page) -> list[dict[str, Any]]:
    """The JSON of the searches from now on, without those for the order before re-ranking."""
    bodies: list[dict[str, Any]] = []

    def keep(request: sync_api.Request) -> None:
        if request.url.endswith("/v1/search") and request.post_data_json["rerank"] != "none":
            bodies.append(request.post_data_json)

    page.on("request", keep)
    return bodies


def enter(page: sync_api.Page, name: str, value: str) -> None:
    page.get_by_label(name, exact=True).fill(value)
    page.keyboard.press("Enter")


def test_by_keyboard_and_in_the_address(page: sync_api.Page) -> None:
    image = page.locator(".examples .card").first.get_attribute("data-image")
    assert not page.locator("#parameters").is_visible()
    bodies = sent(page)
    page.locator(".examples .card").first.click()
    page.wait_for_selector(f"{SETTLED} .move")
    select(page, "eprf")
    page.wait_for_selector(f"{SETTLED} .move")
    page.get_by_role("combobox", name="Re-ranking").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    field = page.get_by_label("N", exact=True)
    stored = page.request.get(f"{page.url.partition('?')[0]}v1/collection/profile").json()["rerank"]
    assert field.get_attribute("placeholder") == str(stored["eprf"]["N"])
    assert (field.get_attribute("min"), field.get_attribute("max")) == ("1", "10000")
    assert "1 to 10" in page.inner_text(f"#{field.get_attribute('aria-describedby')}")
    enter(page, "P", "3")
    page.wait_for_url("**parameters=P%3D3**")
    page.wait_for_selector(f"{SETTLED} .move")
    assert "parameters" not in bodies[0]
    assert bodies[-1] == {"image_id": image, "k": 20, "rerank": "eprf", "parameters": {"P": 3}, "where": []}
    page.reload()
    page.wait_for_selector(f"{SETTLED} .move")
    assert page.get_by_label("P", exact=True).input_value() == "3"
    assert page.inner_text("#parameters summary") == "Parameters · P=3"
    assert bodies[-1]["parameters"] == {"P": 3}
    page.locator("#parameters summary").press("Enter")
    page.get_by_role("button", name="Back to defaults").press("Enter")
    page.wait_for_selector(f"{SETTLED} .move")
    assert "parameters" not in bodies[-1]
    assert "parameters" not in page.url
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"


def test_a_value_out_of_bounds_is_pointed_at(page: sync_api.Page, pictures: list[Path]) -> None:
    select(page, "eprf")
    choose(page, pictures[-1])
    bodies: list[str] = []
    page.on("request", lambda request: bodies.append(request.url))
    page.locator("#parameters summary").click()
    enter(page, "P", "101")
    page.locator("#parameters summary").click()  # closed, and opened by the next search
    page.get_by_role("button", name="Search", exact=True).click()
    assert page.evaluate("document.getElementById('parameters').open")
    assert key_of(page) == "parameter-P"
    assert bodies == []
    enter(page, "P", "100")
    page.wait_for_selector(f"{SETTLED} .move")


def test_a_file_is_searched_with_them(page: sync_api.Page, pictures: list[Path]) -> None:
    select(page, "pearson")
    choose(page, pictures[-1])
    page.locator("#parameters summary").click()
    with page.expect_response(SEARCHES) as response:
        enter(page, "lam", "0.25")
    answer = json.loads(response.value.text())["rerank"]
    assert (answer["method"], answer["parameters"]["lam"]) == ("pearson", 0.25)
    page.wait_for_selector(f"{SETTLED} .move")
    select(page, "none")
    page.wait_for_selector(f"{SETTLED} .card")
    assert not page.locator("#parameters").is_visible()


@pytest.mark.parametrize(("method", "learner"), [("eprf", "eprf"), ("diffusion", "feedback")])
def test_with_judgements(page: sync_api.Page, pictures: list[Path], method: str, learner: str) -> None:
    select(page, method)
    choose(page, pictures[-1])
    page.locator(".column .card").first.press("y")
    with page.expect_response(SEARCHES) as response:
        page.keyboard.press("j")
    assert json.loads(response.value.text())["rerank"]["method"] == learner
    page.wait_for_selector(f"{SETTLED} .move")
    replaced = "another method learns from those" in page.inner_text("#explanation")
    assert replaced == (method == "diffusion")
    assert ("auto chose feedback" in page.inner_text("#summary")) == replaced


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core")
def test_axe_finds_nothing(page: sync_api.Page) -> None:
    select(page, "eprf")
    page.locator("#parameters summary").click()
    assert page.get_by_label("gamma", exact=True).is_visible()
    assert complaints(page) == []
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
