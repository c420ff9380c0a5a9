"""axe-core finds nothing to say about the page, in any of its states, dark and light."""

import sys
from pathlib import Path

import pytest
from playwright import sync_api

from tests.e2e.browsing import choose, show
from tests.service.conftest import Served

AXE = Path(sys.prefix, "axe", "node_modules", "axe-core", "axe.min.js")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OF_COLOURS = ["color-contrast"]
RUN = """async rules => {
    const { passes, incomplete, violations } =
        await axe.run(document, { runOnly: rules, resultTypes: ["violations"] });
    return [passes.length + incomplete.length, violations.flatMap(({ id, nodes }) =>
        nodes.map(({ target, failureSummary }) => `${id}: ${target} ${failureSummary}`))];
}"""

pytestmark = pytest.mark.skipif(
    not AXE.exists(),
    reason=f"there is no axe-core; `npm install --prefix {sys.prefix}/axe axe-core` brings it",
)


def complaints(page: sync_api.Page, rules: list[str] = RULES) -> list[str]:
    """What axe finds on the page as it is now: rule, and where."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(AXE.read_text())
    passed, found = page.evaluate(RUN, rules)
    assert passed, "axe looked at nothing"
    return list(found)


def complaints_dark_and_light(page: sync_api.Page) -> list[str]:
    """What axe finds in both colours; all but the colours is the same in both."""
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    dark = complaints(page)
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    return dark + [f"light: {one}" for one in complaints(page, OF_COLOURS)]


@pytest.mark.parametrize("width", [400, 1280])
def test_accessible(page: sync_api.Page, served: Served, pictures: list[Path], width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{served.address}/?k=5")  # axe looks at each card
    found = {"start": complaints_dark_and_light(page)}
    page.keyboard.press("?")
    found["help"] = complaints_dark_and_light(page)
    page.keyboard.press("Escape")
    choose(page, pictures[-1])
    page.get_by_text("Your image ·").wait_for()
    found["answers"] = complaints_dark_and_light(page)
    if width == 400:  # folded there
        page.get_by_text("Settings of the search").click()
    page.get_by_role("combobox", name="Filter").select_option("label=odd")
    page.wait_for_selector("#columns:not([aria-busy]) .move")
    show(page, "Side by side")
    page.get_by_role("button", name="Crop").click()
    found["side by side, filter, region"] = complaints_dark_and_light(page)
    page.locator(".column .card").first.press("Enter")
    page.keyboard.press("i")
    page.locator("#metadata dd").first.wait_for()
    found["comparison"] = complaints_dark_and_light(page)
    page.keyboard.press("Escape")
    page.get_by_label("Only images with").fill("label=nobody")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="No results").wait_for()
    found["nothing"] = complaints_dark_and_light(page)
    assert {state: said for state, said in found.items() if said} == {}


def test_accessible_when_something_is_wrong(
    page: sync_api.Page, tmp_path: Path, tolerated: list[str]
) -> None:
    tolerated.append("422")
    (tmp_path / "letter.png").write_text("Dear colleague")
    page.set_input_files("#file", tmp_path / "letter.png")
    page.get_by_role("alert").wait_for()
    assert complaints(page) == []
