"""A series whose SOP Instance UIDs and files are at random is scrolled through from one end to the other."""

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pydicom
import pytest
from playwright import sync_api

from tests.cbir.images.synthetic_series import stack, write_series
from tests.e2e.browsing import settle, until
from tests.indexer.commands import call
from tests.service.conftest import Served, serving

COUNT = 24
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
    page.goto(f"{page.url}?image={image}")
    settle(page)
    page.locator("#columns .card").nth(5).click()
    page.locator("#right-slice").wait_for()
    link = page.locator("#from-here")
    shown = instance(page, link.get_attribute("data-image"))
    assert page.inner_text("#right-count") == f"{list(files).index(shown) + 1} of {COUNT}"
    page.keyboard.press("Home")
    seen = []
    for number in range(1, COUNT + 1):
        until(page, f"document.getElementById('right-count').textContent === '{number} of {COUNT}'")
        seen.append(instance(page, link.get_attribute("data-image")))
        page.keyboard.press("ArrowDown")
    assert seen == list(files)
    left = page.inner_text("#left-count")
    assert left == f"{list(files).index(instance(page, image)) + 1} of {COUNT}"


def test_slices_of_a_dropped_folder_are_in_order(page: sync_api.Page, files: dict[str, Path]) -> None:
    page.evaluate("""() => {
        window.sizes = [];
        const plain = window.fetch;
        window.fetch = (address, options) => {
            if (address === "/v1/search") sizes.push(options.body.getAll("image")[0].size);
            return plain(address, options);
        };
    }""")
    page.set_input_files("#file", random.Random(1).sample(list(files.values()), COUNT))
    page.get_by_text(f"slice {COUNT // 2 + 1}", exact=False).wait_for()
    assert page.inner_text("#frame-count") == f"of {COUNT}"
    by_size = {path.stat().st_size: number for number, path in enumerate(files.values(), start=1)}
    settle(page)
    for number in (1, 2, 3, COUNT):
        page.get_by_role("spinbutton", name="Slice").fill(str(number))
        page.keyboard.press("Enter")
        page.get_by_text(f"slice {number}", exact=False).wait_for()
        until(page, f"sizes.at(-1) === {next(size for size, each in by_size.items() if each == number)}")


def test_slices_of_the_gallery_are_in_order(page: sync_api.Page, files: dict[str, Path]) -> None:
    page.goto(f"{page.url}gallery?view=series")
    page.locator("#cards .tile").first.click()
    sync_api.expect(page.locator("#slice-number")).to_contain_text(f"of {COUNT}")  # keys before it do nothing
    page.locator("#slice-film").focus()
    page.keyboard.press("Home")
    seen = []
    for number in range(1, COUNT + 1):
        until(page, f"document.getElementById('slice-number').textContent === '{number} of {COUNT}'")
        address = str(page.locator("#slice-search").get_attribute("href"))
        seen.append(instance(page, address.split("image=")[1].split("&")[0]))
        page.keyboard.press("ArrowDown")
    assert seen == list(files)
