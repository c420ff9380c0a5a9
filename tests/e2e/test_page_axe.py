"""axe-core finds nothing to say about the page, in any of its states, dark and light."""

import sys
from pathlib import Path

import pytest
from playwright import sync_api

from tests.e2e.browsing import become_expert, choose, see_query, settle, show
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
    page.emulate_media(reduced_motion="reduce")
    colours = "document.documentElement.dataset.theme = '{}'"
    page.evaluate(colours.format("dark"))
    dark = complaints(page)
    page.evaluate(colours.format("light"))
    light = complaints(page, OF_COLOURS)
    page.evaluate(colours.format("dark"))
    return dark + [f"light: {one}" for one in light]


@pytest.mark.parametrize("width", [400, 1280])
def test_accessible(page: sync_api.Page, served: Served, pictures: list[Path], width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{served.address}/?k=5")  # axe looks at each card
    page.locator("#drop").wait_for()
    found = {"start": complaints_dark_and_light(page)}
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    found["help"] = complaints_dark_and_light(page)
    page.keyboard.press("Escape")
    page.locator("[popovertarget=more]").click()
    found["menu"] = complaints_dark_and_light(page)
    page.keyboard.press("Escape")
    choose(page, pictures[-1])
    see_query(page)
    found["answers"] = complaints_dark_and_light(page)
    page.locator("#add-filter").click()
    found["filters"] = complaints_dark_and_light(page)
    page.get_by_role("checkbox", name="odd").check()
    settle(page)
    page.keyboard.press("Escape")
    become_expert(page)
    show(page, "Side by side")
    found["expert, side by side, filter"] = complaints_dark_and_light(page)
    page.locator("#columns .card").first.press("Enter")
    page.keyboard.press("i")
    page.locator(".reading .metadata dd").first.wait_for()
    found["comparison"] = complaints_dark_and_light(page)
    page.keyboard.press("Escape")
    page.locator("#add-filter").click()
    page.locator("#where").fill("label=nobody")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Remove the filter label=odd").click()
    page.get_by_role("heading", name="No results").wait_for()
    page.keyboard.press("Escape")
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
