"""Browse in a browser, without a map: filters, order, selection, labels, deletion, export."""

import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright import sync_api

from tests.e2e.browsing import until
from tests.e2e.test_page_axe import AXE, complaints_dark_and_light
from tests.service import dicom_collection
from tests.service.conftest import Served, serving

TILES = "#grid:not([aria-busy]) .tile"


@pytest.fixture(scope="module")
def own(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The service of a copy of the collection, which the tests change."""
    with serving(shutil.copytree(indexed, tmp_path_factory.mktemp("browse") / "own")) as running:
        yield running


@pytest.fixture
def browse(blank_page: sync_api.Page, own: Served) -> sync_api.Page:
    blank_page.set_viewport_size({"width": 1280, "height": 1700})  # all tiles are in sight
    blank_page.goto(f"{own.address}/gallery?sort=oldest")
    blank_page.wait_for_selector(TILES)
    return blank_page


def total(page: sync_api.Page, number: int) -> None:
    page.locator("#total", has_text=f"{number} image").wait_for()
    until(page, f"document.querySelectorAll('.tile').length === {number}")


def chosen(page: sync_api.Page) -> list[int]:
    return [
        int(str(t.get_attribute("data-position"))) for t in page.locator(".tile[aria-selected=true]").all()
    ]


def select(page: sync_api.Page, position: int) -> None:
    """Select an image by its tick."""
    tile = page.locator(".tile").nth(position)
    tile.hover()
    tile.locator(".tick").click()


def test_filters_order_and_address(browse: sync_api.Page) -> None:
    count = browse.locator(".tile").count()
    browse.get_by_role("checkbox", name="odd").check()
    total(browse, count // 2)
    browse.get_by_role("checkbox", name="even").check()  # any of them
    total(browse, count)
    browse.get_by_role("button", name="Remove the filter label=even").click()
    total(browse, count // 2)
    browse.locator("summary", has_text="severity").click()
    browse.get_by_label("Least severity").fill("2")
    browse.get_by_label("Least severity").press("Enter")
    browse.get_by_role("button", name="Remove the filter severity>=2").wait_for()
    total(browse, 5)
    browse.get_by_label("Sort").select_option("-label:severity")
    browse.locator(".tile").first.get_by_text("severity: 2.9").wait_for()
    address = browse.url
    browse.go_back()
    browse.locator(".tile:first-child[title*='severity: 2.1']").wait_for()
    browse.go_back()
    total(browse, count // 2)
    browse.goto(address)
    browse.locator(".tile").first.get_by_text("severity: 2.9").wait_for()
    assert browse.locator(".tile").count() == 5
    browse.goto(f"{address}&where=label%3Dnobody&where=severity%3E99")
    browse.get_by_role("heading", name="No images").wait_for()
    browse.get_by_role("button", name="Remove all filters").click()
    total(browse, count)


def test_an_error_is_shown_and_not_asked_for_again(browse: sync_api.Page, tolerated: list[str]) -> None:
    tolerated.append("422")
    count = browse.locator(".tile").count()
    requests: list[str] = []
    browse.on("request", lambda request: requests.append(request.url))
    browse.goto(browse.url + "&where=labl%3Dodd")
    browse.get_by_role("alert").get_by_text("did you mean").wait_for()
    browse.wait_for_timeout(300)
    assert len([address for address in requests if "/images?" in address]) == 1
    browse.get_by_role("button", name="Remove the filter labl=odd").click()
    total(browse, count)
    assert browse.get_by_role("alert").count() == 0


def test_selection_by_mouse_and_keys(browse: sync_api.Page) -> None:
    select(browse, 2)
    browse.locator(".tile").nth(4).click(modifiers=["Shift"])
    assert chosen(browse) == [2, 3, 4]
    browse.get_by_text("3 images selected").wait_for()
    browse.keyboard.press("ArrowLeft")
    browse.keyboard.press("Space")
    assert chosen(browse) == [2, 4]
    browse.keyboard.press("Home")
    browse.keyboard.press("Shift+ArrowRight")
    assert {0, 1} <= set(chosen(browse))
    browse.keyboard.press("Control+a")
    count = len(browse.locator(".tile").all())
    browse.get_by_text(f"{count} images selected").wait_for()
    assert browse.get_by_role("button", name="Search with these").is_disabled()
    browse.get_by_role("button", name="Clear").click()
    assert chosen(browse) == []
    active = browse.locator("#grid").get_attribute("aria-activedescendant")
    assert browse.locator(f"#{active}").count() == 1


def test_the_keyboard_reaches_the_images_and_shows_them(browse: sync_api.Page) -> None:
    browse.set_viewport_size({"width": 1280, "height": 300})
    browse.get_by_role("link", name="Skip to the images").press("Enter")
    assert browse.evaluate("document.activeElement.id") == "grid"
    browse.keyboard.press("End")
    browse.evaluate("scrollTo(0, 0)")
    browse.keyboard.press("Space")  # never an image out of sight
    assert browse.evaluate(
        "(({ top, bottom }) => top >= -8 && bottom <= innerHeight)"
        "(document.querySelector('.tile.active').getBoundingClientRect())"
    )
    browse.get_by_role("group", name="label").get_by_role("checkbox").first.wait_for()
    browse.get_by_role("button", name="Clear").press("Enter")
    assert browse.evaluate("document.activeElement.id") == "grid"


def test_search_with_the_selected(browse: sync_api.Page) -> None:
    images = [str(tile.get_attribute("data-image")) for tile in browse.locator(".tile").all()[:3]]
    for position in range(3):
        select(browse, position)
    browse.get_by_role("button", name="Search with these").click()
    browse.get_by_text("2 like this").wait_for()
    assert f"image={images[0]}" in browse.url


def test_label_export_and_delete(browse: sync_api.Page, tmp_path: Path) -> None:
    count = browse.locator(".tile").count()
    for position in (0, 3):
        select(browse, position)
    browse.get_by_role("button", name="Label …").click()
    browse.get_by_label("Key", exact=True).fill("note")
    browse.get_by_label("Value").fill("look again")
    browse.get_by_text("Set note to look again on 2 images?").wait_for()
    browse.get_by_role("button", name="Label 2 images").click()
    browse.locator("summary", has_text="note").wait_for()  # a label that is new
    with browse.expect_download() as download:
        browse.get_by_role("group", name="Selected images").get_by_role("button", name="Export csv").click()
    with Path(download.value.path()).open(newline="") as file:
        assert [row["note"] for row in csv.DictReader(file)] == ["look again"] * 2
    with browse.expect_download() as download:
        browse.locator("[popovertarget=all-menu]").click()
        browse.locator("#all-menu").get_by_role("button", name="Export JSON").click()
    everything = json.loads(Path(download.value.path()).read_text())
    assert len(everything) == count
    assert everything[3]["labels"]["note"] == "look again"
    browse.get_by_role("button", name="Delete …").click()
    browse.get_by_role("heading", name="Delete 2 images?").wait_for()
    browse.get_by_role("button", name="Cancel").click()
    assert browse.locator(".tile").count() == count
    browse.get_by_role("button", name="Delete …").click()
    browse.get_by_role("button", name="Delete permanently").click()
    total(browse, count - 2)
    assert browse.locator("#selection").count() == 0


def test_a_click_shows_an_image_large(browse: sync_api.Page) -> None:
    browse.locator(".tile").nth(1).click()
    dialog = browse.get_by_role("dialog")
    titles = [browse.locator(".tile .words b").nth(position).inner_text() for position in range(3)]
    assert dialog.get_by_role("heading").inner_text() == titles[1]
    until(browse, "document.getElementById('large-viewer').picture?.size.width > 0")
    browse.keyboard.press("ArrowRight")
    assert dialog.get_by_role("heading").inner_text() == titles[2]
    for _ in range(3):
        browse.keyboard.press("ArrowLeft")
    assert dialog.get_by_role("button", name="Previous image").is_disabled()
    browse.keyboard.press("Escape")
    assert browse.evaluate("document.activeElement.id") == "grid"
    assert chosen(browse) == []
    browse.keyboard.press("Enter")
    image = browse.locator(".tile").nth(1).get_attribute("data-image")
    dialog.get_by_role("link", name="Search with this image").click()
    browse.wait_for_url(f"**image={image}**")


def test_series_and_their_slices(blank_page: sync_api.Page, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, slices = dicom_collection.make(tmp_path_factory)
    with serving(folder) as running:
        blank_page.goto(f"{running.address}/browse")
        blank_page.wait_for_selector(TILES)
        blank_page.locator("#views label", has_text="Series").click()
        card = blank_page.locator("#cards .tile", has_text=f"{dicom_collection.SLICES} slices").first
        series = card.get_attribute("data-series")
        assert series in {item.SeriesInstanceUID for item in slices}
        card.click()
        blank_page.get_by_text("slice 4 of 6").wait_for()  # the middle one
        blank_page.keyboard.press("ArrowDown")
        blank_page.get_by_text("slice 5 of 6").wait_for()
        blank_page.locator("#large-viewer .viewer-stage").hover()
        blank_page.mouse.wheel(0, -80)
        blank_page.get_by_text("slice 4 of 6").wait_for()  # one a notch
        blank_page.keyboard.press("End")
        blank_page.get_by_text("slice 6 of 6").wait_for()
        if AXE.exists():
            assert complaints_dark_and_light(blank_page) == []
        assert f"series={series}" in blank_page.url
        blank_page.go_back()
        blank_page.locator("#large").wait_for(state="hidden")
        blank_page.go_forward()
        blank_page.get_by_text("slice 4 of 6").wait_for()
        blank_page.keyboard.press("Escape")
        blank_page.locator("#views label", has_text="Studies").click()
        blank_page.locator("#cards .tile[data-series='']").first.wait_for()
        if AXE.exists():
            assert complaints_dark_and_light(blank_page) == []
        blank_page.locator("#views label", has_text="Images").click()
        blank_page.wait_for_selector(TILES)
        blank_page.goto("about:blank")  # asks for no more thumbnails when the service ends


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core")
@pytest.mark.parametrize("width", [400, 1280])
def test_accessible(browse: sync_api.Page, width: int) -> None:
    browse.set_viewport_size({"width": width, "height": 900})
    browse.goto(browse.url + "&where=label%3Dodd")
    browse.wait_for_selector(TILES)
    select(browse, 0)
    found = {"selected": complaints_dark_and_light(browse)}
    for name in ("Label …", "Delete …"):
        browse.get_by_role("button", name=name).click()
        found[name] = complaints_dark_and_light(browse)
        browse.keyboard.press("Escape")
    assert {state: said for state, said in found.items() if said} == {}
