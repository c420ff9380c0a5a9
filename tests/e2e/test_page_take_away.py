"""Saving the results of the page as files, and printing them."""

import csv
import json
from pathlib import Path

import pytest
from playwright import sync_api

from tests.e2e.browsing import choose, ids, see_query
from tests.e2e.test_page_axe import AXE, complaints


def saved(page: sync_api.Page, button: str) -> str:
    """What the file has that a button of the menu saves."""
    page.locator("[popovertarget=query-menu]").click()
    with page.expect_download() as download:
        page.locator("#query-menu").get_by_text(button).click()
    assert page.locator("#query-menu").is_hidden()
    return Path(download.value.path()).read_text(encoding="utf-8")


def test_the_results_as_files(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    see_query(page)
    found = ids(page)
    rows = list(csv.DictReader(saved(page, "Table").splitlines()))
    assert [row["image_id"] for row in rows] == found
    assert {row["label"] for row in rows} == {"even", "odd"}
    answer = json.loads(saved(page, "JSON"))
    assert [hit["image_id"] for hit in answer["results"]] == found
    sheet = saved(page, "Sheet")
    assert sheet.count('src="data:image/jpeg;base64,') == 1 + len(found)
    assert all(image in sheet for image in found)


def test_a_sheet_needs_nothing_else(page: sync_api.Page, pictures: list[Path], tmp_path: Path) -> None:
    choose(page, pictures[-1])
    file = tmp_path / "results.html"
    file.write_text(saved(page, "Sheet"), encoding="utf-8")
    page.goto(file.as_uri())
    assert page.evaluate("[...document.images].every(image => image.naturalWidth > 0)")


def test_no_uids_without_dicom(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    page.locator("[popovertarget=query-menu]").click()
    page.get_by_role("button", name="Table").wait_for()
    assert page.get_by_text("DICOM UIDs").count() == 0
    page.keyboard.press("Escape")
    assert page.get_by_role("button", name="Table").is_hidden()


def test_printed_without_controls(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    page.emulate_media(media="print")
    assert page.locator("#add-filter").is_hidden()
    assert page.locator("#side cbir-viewer").is_visible()
    assert page.locator("#columns .card").first.is_visible()


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core; see test_page_axe.py")
def test_accessible_menu(page: sync_api.Page, pictures: list[Path]) -> None:
    page.emulate_media(reduced_motion="reduce")
    choose(page, pictures[-1])
    page.locator("[popovertarget=query-menu]").click()
    assert complaints(page) == []
