"""axe-core finds nothing to say about the page, in any of its states, dark and light."""

import sys
from pathlib import Path

import pytest
from playwright import sync_api

from tests.e2e.browsing import choose, show

AXE = Path(sys.prefix, "axe", "node_modules", "axe-core", "axe.min.js")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

pytestmark = pytest.mark.skipif(
    not AXE.exists(),
    reason=f"there is no axe-core; `npm install --prefix {sys.prefix}/axe axe-core` brings it",
)


def complaints(page: sync_api.Page) -> list[str]:
    """What axe finds on the page as it is now: rule, and where."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("rules => axe.run(document, { runOnly: rules })", RULES)
    assert found["passes"], "axe looked at nothing"
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("colours", ["dark", "light"])
@pytest.mark.parametrize("width", [400, 1280])
def test_accessible(
    page: sync_api.Page, pictures: list[Path], colours: str, width: int, tmp_path: Path
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if colours == "dark" else "light", reduced_motion="reduce")
    found = {"start": complaints(page)}
    page.keyboard.press("?")
    found["help"] = complaints(page)
    page.keyboard.press("Escape")
    choose(page, pictures[-1])
    page.get_by_text("Your image ·").wait_for()
    found["answers"] = complaints(page)
    page.get_by_role("combobox", name="Filter").select_option("label=odd")
    page.wait_for_selector("#columns:not([aria-busy]) .move")
    show(page, "Side by side")
    page.get_by_role("button", name="Crop").click()
    found["side by side, filter, region"] = complaints(page)
    page.locator(".column .card").first.press("Enter")
    page.keyboard.press("i")
    page.locator("#metadata dd").first.wait_for()
    found["comparison"] = complaints(page)
    page.keyboard.press("Escape")
    page.get_by_label("Only images with").fill("label=nobody")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="No results").wait_for()
    found["nothing"] = complaints(page)
    assert {state: said for state, said in found.items() if said} == {}


def test_accessible_when_something_is_wrong(
    page: sync_api.Page, tmp_path: Path, tolerated: list[str]
) -> None:
    tolerated.append("422")
    (tmp_path / "letter.png").write_text("Dear colleague")
    page.set_input_files("#file", tmp_path / "letter.png")
    page.get_by_role("alert").wait_for()
    assert complaints(page) == []
