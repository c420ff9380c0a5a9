"""Folders, archives and several files as the query, and going through slices and frames."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import pydicom
import pytest
from playwright import sync_api
from pydicom.data import get_testdata_file

from tests.e2e.browsing import VIEWER, choose, ids, settle, until

RECORD_SEARCHES = """() => {
    window.searches = [];
    const plain = XMLHttpRequest.prototype.send;
    XMLHttpRequest.prototype.send = function (body) {
        searches.push(body.getAll("image").map(({ size }) => size));
        return plain.call(this, body);
    };
}"""
COUNTER = f"{VIEWER}.counter.textContent"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four CT slices of one series in a folder in a folder, of different sizes, with a letter."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "series").mkdir()
    dataset = pydicom.dcmread(str(get_testdata_file("CT_small.dcm")))
    for number in range(1, 5):
        dataset.InstanceNumber, dataset.SOPInstanceUID = number, f"1.2.3.{number}"
        dataset.ImageComments = "x" * 100 * number
        dataset.PixelData = bytes(reversed(dataset.PixelData)) if number == 3 else dataset.PixelData
        dataset.save_as(folder / "series" / f"{5 - number}.dcm")
    (folder / "letter.txt").write_text("Dear colleague")
    return folder


def drop(page: sync_api.Page, paths: Sequence[Path]) -> None:
    """Drop files or folders on the page, as the operating system does."""
    session = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    place = {"x": 700, "y": 400, "data": data}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, **place})


def test_dropped_folder_is_a_stack(page: sync_api.Page, study: Path) -> None:
    page.evaluate(RECORD_SEARCHES)
    drop(page, [study])
    settle(page)
    until(page, f"{COUNTER} === 'Slice 3 of 4'")
    assert page.inner_text("#input-note") == "1 file left out: not images."
    sizes = [(study / "series" / f"{5 - number}.dcm").stat().st_size for number in range(1, 5)]
    assert page.evaluate("searches") == [[sizes[2]]]
    page.locator("#side .viewer-stage").hover()
    page.mouse.wheel(0, 120)
    until(page, f"{COUNTER} === 'Slice 4 of 4'")
    until(page, f"String(searches.at(-1)) === '{sizes[3]}'")
    page.locator("#side .viewer-stage").focus()
    page.keyboard.press("Home")
    until(page, f"{COUNTER} === 'Slice 1 of 4'")
    until(page, f"String(searches.at(-1)) === '{sizes[0]}'")


def test_several_files_are_one_query(page: sync_api.Page, pictures: list[Path]) -> None:
    page.evaluate(RECORD_SEARCHES)
    drop(page, pictures[:3])
    settle(page)
    until(page, f"{COUNTER} === 'Example 1 of 3'")
    assert page.evaluate("searches[0].length") == 3
    found, count = ids(page), page.evaluate("searches.length")
    page.locator("#side .viewer-stage").focus()
    page.keyboard.press("ArrowDown")
    until(page, f"{COUNTER} === 'Example 2 of 3'")
    page.wait_for_timeout(600)
    assert (ids(page), page.evaluate("searches.length")) == (found, count)  # only looked at
    assert page.locator("#side").get_by_role("button", name="Region").count() == 0


def test_archive_is_a_stack_too(page: sync_api.Page, study: Path, tmp_path: Path) -> None:
    archive = tmp_path / "study.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(study.rglob("*.*")):
            file.write(path, path.relative_to(study))
    page.set_input_files("#file", archive)
    settle(page)
    until(page, f"{COUNTER} === 'Slice 3 of 4'")


def test_errors_name_the_problem_and_keep_the_results(
    page: sync_api.Page, pictures: list[Path], tmp_path: Path, tolerated: list[str]
) -> None:
    tolerated.append("422")
    choose(page, pictures[-1])
    found = ids(page)
    (tmp_path / "folder").mkdir()
    for name in ("letter.txt", "answer.txt"):
        (tmp_path / "folder" / name).write_text("Dear colleague")
    drop(page, [tmp_path / "folder"])
    page.get_by_role("heading", name="There is no image to search with").wait_for()
    assert "None of 2 files is an image. Choose PNG" in page.inner_text("#problem")
    assert ids(page) == found
    (tmp_path / "scan.png").write_bytes(pictures[0].read_bytes()[:100])
    page.set_input_files("#file", [tmp_path / "scan.png", pictures[0]])
    until(page, "document.getElementById('problem')?.textContent.includes('scan.png')")
    assert ids(page) == found
