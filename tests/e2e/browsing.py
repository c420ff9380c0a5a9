"""What tests of the page do again and again."""

import time
from pathlib import Path
from typing import Any

from playwright import sync_api

PATIENCE_SECONDS = 60  # the machine may be busy
SETTLED = "#columns:not([aria-busy]) .column:not([data-before])"
MARK_BEFORE = "document.querySelectorAll('#columns .column').forEach(each => { each.dataset.before = ''; })"


def ids(page: sync_api.Page, column: str = "After re-ranking") -> list[str]:
    """The images shown in a column, in order."""
    cards = page.locator(f'section[aria-label="{column}"] .card')
    return [str(card.get_attribute("data-image")) for card in cards.all()]


def choose(page: sync_api.Page, path: Path) -> None:
    """Choose a file, and wait for its answers with what moved; those of before stay for a moment."""
    page.evaluate(MARK_BEFORE)
    page.set_input_files("#file", path)
    page.wait_for_selector(f"{SETTLED} .move")


def show(page: sync_api.Page, view: str) -> None:
    page.locator("label", has=page.get_by_role("radio", name=view)).click()


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


def settle(page: sync_api.Page) -> None:
    """Wait for the answers to the search that was just begun; it takes the earlier ones away at once."""
    page.wait_for_selector(f"{SETTLED} .card")


def crop_by_mouse(page: sync_api.Page, start: float = 0.3, end: float = 0.7) -> None:
    """Drag from one part of the picture to another, both from 0 to 1."""
    page.locator("#crop:enabled").wait_for()
    box = page.locator("#drop").bounding_box()
    assert box
    page.mouse.move(box["x"] + start * box["width"], box["y"] + start * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], box["y"] + end * box["height"], steps=4)
    page.mouse.up()


VIEWERS = "[...document.querySelectorAll('.reading figure:not([hidden]) cbir-viewer')]"


def viewers(page: sync_api.Page, expression: str) -> list[Any]:
    """What an expression of `viewer` is for each viewer of the reading view, the query's first."""
    return list(page.evaluate(f"{VIEWERS}.map((viewer) => {expression})"))


def until_viewers(page: sync_api.Page, expression: str) -> None:
    """Wait until an expression of `viewer` is true for each viewer of the reading view."""
    until(page, f"{VIEWERS}.length > 0 && {VIEWERS}.every((viewer) => {expression})")
