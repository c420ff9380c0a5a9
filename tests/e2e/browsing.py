"""What tests of the page do again and again."""

import time
from pathlib import Path
from typing import Any

from playwright import sync_api

PATIENCE_SECONDS = 60  # the machine may be busy
SETTLED = "#columns:not([aria-busy])"
SEARCHES = "**/search"
VIEWER = "document.querySelector('#side cbir-viewer')"


def ids(page: sync_api.Page, shown: str = "after") -> list[str]:
    """The images of a list of results, in order: "after" or "before" re-ranking."""
    cards = page.locator(f'#columns [data-list="{shown}"] .card')
    return [str(card.get_attribute("data-image")) for card in cards.all()]


def titles(page: sync_api.Page) -> set[str]:
    return set(page.locator("#columns .card b").all_text_contents())


def choose(page: sync_api.Page, path: Path | list[Path]) -> None:
    """Choose a file, and wait for its answers; those of before stay meanwhile."""
    with page.expect_response(SEARCHES):
        page.set_input_files("#file", path)
    settle(page)


def start(page: sync_api.Page, place: int = 0) -> str:
    """Search with an image of the start page, and return its id."""
    card = page.locator("#start .card").nth(place)
    image = str(card.get_attribute("data-image"))
    card.click()
    settle(page)
    return image


def settle(page: sync_api.Page) -> None:
    """Wait for the answers to the search that was just begun."""
    page.wait_for_selector(f"{SETTLED} .card")


def become_expert(page: sync_api.Page) -> None:
    """Turn on what researchers see."""
    page.evaluate("document.getElementById('expert').checked || document.getElementById('expert').click()")


def show(page: sync_api.Page, view: str) -> None:
    page.locator("#views label", has=page.get_by_role("radio", name=view)).click()


def key_of(page: sync_api.Page) -> str:
    """What has the focus: its id, or else its class."""
    return str(page.evaluate("document.activeElement.id || document.activeElement.className"))


def until(page: sync_api.Page, expression: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until an expression is true; playwright's own way needs eval, which the page's policy forbids."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if page.evaluate(expression):
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"never true: {expression}")


def see_query(page: sync_api.Page) -> None:
    """Wait until the picture of the query is shown."""
    until(page, f"Boolean({VIEWER}?.picture)")


def crop_by_mouse(page: sync_api.Page, first: float = 0.3, last: float = 0.7) -> None:
    """Select a region from one part of the picture to another, both from 0 to 1."""
    see_query(page)
    page.locator("#side").get_by_role("button", name="Region").click()
    box = page.locator("#side .viewer-stage").bounding_box()
    assert box
    page.mouse.move(box["x"] + first * box["width"], box["y"] + first * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + last * box["width"], box["y"] + last * box["height"], steps=4)
    page.mouse.up()


VIEWERS = "[...document.querySelectorAll('.reading figure:not([hidden]) cbir-viewer')]"


def viewers(page: sync_api.Page, expression: str) -> list[Any]:
    """What an expression of `viewer` is for each viewer of the reading view, the query's first."""
    return list(page.evaluate(f"{VIEWERS}.map((viewer) => {expression})"))


def until_viewers(page: sync_api.Page, expression: str) -> None:
    """Wait until an expression of `viewer` is true for each viewer of the reading view."""
    until(page, f"{VIEWERS}.length > 0 && {VIEWERS}.every((viewer) => {expression})")
