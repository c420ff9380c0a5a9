"""A series whose SOP Instance UIDs and files are at random is scrolled through from one end to the other."""

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pydicom
import pytest
from playwright import sync_api

from tests.cbir.images.synthetic_series import stack, write_series
from tests.e2e.browsing import VIEWER, VIEWERS, settle, until, until_viewers, viewers
from tests.indexer.commands import call
from tests.service.conftest import Served, serving

COUNT = 24
RECORD = """() => {
    window.sizes = [];
    const plain = XMLHttpRequest.prototype.send;
    XMLHttpRequest.prototype.send = function (body) {
        sizes.push(body.getAll("image")[0].size);
        return plain.call(this, body);
    };
}"""
HEIGHT = "fetch('/v1/images/{}').then((answer) => answer.json()).then(({{ instance }}) => instance)"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of the slices by SOP Instance UID, from the lowest to the highest slice."""
    folder = tmp_path_factory.mktemp("slices")
    values = stack((COUNT, 64, 64), (5.0, 3.5, 3.5))
    values[:, :8] = 40 * np.arange(COUNT)[:, None, None]  # no two pictures are the same
    drawn, files = random.Random(3), {}
    for path in write_series(folder, values, (5.0, 3.5, 3.5), order_seed=7):
        dataset = pydicom.dcmread(path)
        dataset.SOPInstanceUID = dataset.file_meta.MediaStorageSOPInstanceUID = (
            f"2.25.{drawn.randrange(10**30)}"
        )
        dataset.ImageComments = "x" * 2 * len(files)  # the size tells which slice was sent
        dataset.save_as(path)
        files[dataset.SOPInstanceUID] = path
    return files


@pytest.fixture(scope="module")
def served(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    collection = tmp_path_factory.mktemp("collection") / "c"
    folder = next(iter(files.values())).parent
    call("index", folder, "--collection", collection, "--profile", "tamura", "--jobs", 1)
    with serving(collection) as running:
        yield running


def instance(page: sync_api.Page, image: str | None) -> str:
    return str(page.evaluate(HEIGHT.format(image)))


def test_slices_of_the_comparison_are_in_order(page: sync_api.Page, files: dict[str, Path]) -> None:
    image = page.evaluate(
        "fetch('/v1/images').then((answer) => answer.json()).then(({ items }) => items[0].image_id)"
    )
    page.goto(f"{page.url}?image={image}&group_by=image")
    settle(page)
    page.locator("#columns .card").nth(5).click()
    until_viewers(page, "viewer.count === 24 && viewer.picture")
    left, shown = (instance(page, image) for image in viewers(page, "viewer.slice.id"))
    assert left == instance(page, image)
    for name, number in zip(viewers(page, "viewer.counter.textContent"), (left, shown), strict=True):
        assert name == f"Slice {list(files).index(number) + 1} of {COUNT}"
    page.keyboard.press("Home")
    seen = []
    for number in range(1, COUNT + 1):
        until(page, f"{VIEWERS}[1].counter.textContent === 'Slice {number} of {COUNT}'")
        seen.append(instance(page, viewers(page, "viewer.slice.id")[1]))
        page.keyboard.press("ArrowDown")
    assert seen == list(files)


def test_slices_of_a_dropped_folder_are_in_order(page: sync_api.Page, files: dict[str, Path]) -> None:
    page.goto(f"{page.url}?group_by=image")
    page.locator("#drop").wait_for()
    page.evaluate(RECORD)
    page.set_input_files("#file", random.Random(1).sample(list(files.values()), COUNT))
    settle(page)
    by_number = dict(enumerate((path.stat().st_size for path in files.values()), start=1))
    until(page, f"{VIEWER}.counter.textContent === 'Slice {COUNT // 2 + 1} of {COUNT}'")
    assert page.evaluate("sizes") == [by_number[COUNT // 2 + 1]]
    for number in (1, 2, 3, COUNT):
        page.locator("#side .viewer-slider").fill(str(number))
        until(page, f"{VIEWER}.counter.textContent === 'Slice {number} of {COUNT}'")
        until(page, f"sizes.at(-1) === {by_number[number]}")


def test_slices_of_browse_are_in_order(page: sync_api.Page, files: dict[str, Path]) -> None:
    page.goto(f"{page.url}browse?view=series")
    page.locator("#cards .tile").first.click()
    page.locator("#large-viewer").get_by_text(f"of {COUNT}").wait_for()
    page.locator("#large-viewer .viewer-stage").focus()
    page.keyboard.press("Home")
    seen = []
    for number in range(1, COUNT + 1):
        page.locator("#large-viewer").get_by_text(f"Slice {number} of {COUNT}", exact=True).wait_for()
        address = str(
            page.locator("#large").get_by_role("link", name="Search with this image").get_attribute("href")
        )
        seen.append(instance(page, address.split("image=")[1].split("&")[0]))
        page.keyboard.press("ArrowDown")
    assert seen == list(files)
