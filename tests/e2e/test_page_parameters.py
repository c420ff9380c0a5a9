"""The re-ranker and its parameters on the page: by keyboard, in the address, within bounds, with judgements."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright import sync_api

from tests.e2e.browsing import SEARCHES, become_expert, choose, key_of, settle, start, until
from tests.e2e.test_page_axe import AXE, complaints


@pytest.fixture(autouse=True)
def expert(page: sync_api.Page) -> None:
    page.locator("#drop").wait_for()
    become_expert(page)


def select(page: sync_api.Page, name: str) -> None:
    with page.expect_response(SEARCHES):
        page.locator("#rerank").select_option(name)
    settle(page)


def sent(page: sync_api.Page) -> list[dict[str, Any]]:
    """The JSON of the searches from now on."""
    bodies: list[dict[str, Any]] = []
    page.on(
        "request",
        lambda request: bodies.append(request.post_data_json) if request.url.endswith("/search") else None,
    )
    return bodies


def enter(page: sync_api.Page, name: str, value: str) -> None:
    page.locator(f"#parameter-{name}").fill(value)
    page.keyboard.press("Enter")


def test_by_keyboard_and_in_the_address(page: sync_api.Page) -> None:
    bodies = sent(page)
    image = start(page)
    assert page.locator("#parameters").count() == 0
    select(page, "eprf")
    page.locator("#parameters summary").press("Enter")
    field = page.locator("#parameter-N")
    stored = page.request.get(f"{page.url.partition('?')[0]}v1/collection/profile").json()["rerank"]
    assert field.get_attribute("placeholder") == str(stored["eprf"]["N"])
    assert (field.get_attribute("min"), field.get_attribute("max")) == ("1", "10000")
    enter(page, "P", "3")
    page.wait_for_url("**parameters=P%3D3**")
    settle(page)
    assert "parameters" not in bodies[0]
    expected = {"image_id": image, "k": 20, "rerank": "eprf", "parameters": {"P": 3}, "group_by": "patient"}
    assert expected.items() <= bodies[-1].items()
    page.reload()
    settle(page)
    assert page.locator("#parameter-P").input_value() == "3"
    assert page.inner_text("#parameters summary") == "Parameters · P=3"
    assert bodies[-1]["parameters"] == {"P": 3}
    page.locator("#parameters summary").press("Enter")
    enter(page, "P", "")
    until(page, "!location.search.includes('parameters')")
    settle(page)
    assert "parameters" not in bodies[-1]


def test_values_of_the_paper(page: sync_api.Page) -> None:
    bodies = sent(page)
    start(page)
    select(page, "nprf")
    page.locator("#parameters summary").click()
    with page.expect_response(SEARCHES):
        page.get_by_label("Values of the paper").check()
    page.wait_for_url("**parameters=preset%3Dpaper**")
    settle(page)
    assert bodies[-1]["parameters"] == {"preset": "paper"}
    assert page.locator("#parameter-P").get_attribute("placeholder") == "0"
    page.reload()
    settle(page)
    assert page.locator("#preset").is_checked()
    page.locator("#parameters summary").click()
    page.get_by_label("Values of the paper").uncheck()
    until(page, "!location.search.includes('parameters')")


def test_a_value_out_of_bounds_is_pointed_at(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    select(page, "eprf")
    bodies: list[str] = []
    page.on(
        "request", lambda request: bodies.append(request.url) if request.url.endswith("/search") else None
    )
    page.locator("#parameters summary").click()
    enter(page, "P", "101")
    assert key_of(page) == "parameter-P"
    assert bodies == []
    enter(page, "P", "100")
    settle(page)
    assert len(bodies) == 1


def test_a_file_is_searched_with_them(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    select(page, "pearson")
    page.locator("#parameters summary").click()
    with page.expect_response(SEARCHES) as response:
        enter(page, "lam", "0.25")
    answer = json.loads(response.value.text())["rerank"]
    assert (answer["method"], answer["parameters"]["lam"]) == ("pearson", 0.25)
    settle(page)
    select(page, "none")
    assert page.locator("#parameters").count() == 0


@pytest.mark.parametrize(("method", "learner"), [("eprf", "eprf"), ("diffusion", "feedback")])
def test_with_judgements(page: sync_api.Page, pictures: list[Path], method: str, learner: str) -> None:
    choose(page, pictures[-1])
    select(page, method)
    page.locator("#columns .card").first.press("y")
    with page.expect_response(SEARCHES) as response:
        page.keyboard.press("j")
    assert json.loads(response.value.text())["rerank"]["method"] == learner
    settle(page)
    replaced = "learns from several examples" in page.inner_text("#summary")  # why auto chose it
    assert replaced == (method == "diffusion")


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core")
def test_axe_finds_nothing(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    select(page, "eprf")
    page.locator("#parameters summary").click()
    assert page.locator("#parameter-gamma").is_visible()
    assert complaints(page) == []
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
