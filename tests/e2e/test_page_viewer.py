"""Viewers on CT series of known values: the order of slices, links in mm, windows, lengths and means."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pydicom
import pytest
from numpy.typing import NDArray
from playwright import sync_api

from tests.cbir.images.synthetic_series import stack, write_series
from tests.e2e.browsing import VIEWERS, settle, until, until_viewers, viewers
from tests.e2e.test_page_axe import AXE, complaints_dark_and_light
from tests.indexer.commands import call
from tests.service.conftest import Served, serving

THICK, THIN = (6.0, 3.0, 2.0), (2.5, 2.0, 2.0)  # mm between slices, rows, columns
SIZES = {"1.5.1": (16, 48, 64), "1.5.2": (30, 56, 56), "1.5.3": (6, 40, 40)}
SPACINGS = {"1.5.1": THICK, "1.5.2": THIN, "1.5.3": THICK}
WIDTHS = pytest.mark.parametrize("width", [1440, 390])


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pydicom.Dataset]:
    """The slices of three series by SOP Instance UID; the files of the third have no positions."""
    datasets = {}
    for seed, (uid, shape) in enumerate(SIZES.items(), 1):
        folder = tmp_path_factory.mktemp("series")
        values = stack(shape, SPACINGS[uid], seed)
        values[:, :3] = 20 * np.arange(shape[0])[:, None, None]  # no two pictures are the same
        for path in write_series(folder, values, SPACINGS[uid], uid, order_seed=seed):
            dataset = pydicom.dcmread(path)
            dataset.WindowCenter, dataset.WindowWidth = 40, 400
            if uid == "1.5.3":
                del dataset.ImagePositionPatient
            dataset.save_as(path)
            datasets[str(dataset.SOPInstanceUID)] = dataset
    return datasets


@pytest.fixture(scope="module")
def served(
    datasets: dict[str, pydicom.Dataset], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    collection = tmp_path_factory.mktemp("collection") / "c"
    for folder in sorted({Path(str(dataset.filename)).parent for dataset in datasets.values()}):
        call("index", folder, "--collection", collection, "--profile", "tamura", "--jobs", 1, "--duplicates")
    with serving(collection) as running:
        yield running


def images(page: sync_api.Page, series: str) -> list[str]:
    listed = f"fetch('/v1/images?study={series}.9&series={series}').then((answer) => answer.json())"
    return list(page.evaluate(f"{listed}.then(({{ items }}) => items.map((item) => item.image_id))"))


def dataset_of(page: sync_api.Page, image: str, datasets: dict[str, pydicom.Dataset]) -> pydicom.Dataset:
    record = f"fetch('/v1/images/{image}').then((answer) => answer.json())"
    return datasets[page.evaluate(f"{record}.then(({{ instance }}) => instance)")]


def hounsfield(dataset: pydicom.Dataset) -> NDArray[np.float64]:
    return dataset.pixel_array * float(dataset.RescaleSlope) + float(dataset.RescaleIntercept)


def compare(page: sync_api.Page, series: str, other: str, at: int, other_at: int) -> None:
    """Open the reading view with a slice of a series, and a slice of another one as its result."""
    first, second = images(page, series)[at], images(page, other)[other_at]
    page.evaluate(
        f"""import("/static/viewer/reading.js").then(({{ openReading }}) => {{
            const source = (id) => ({{ kind: "image", id, series: true }});
            const result = {{ id: "{second}", source: source("{second}"), rank: 1, title: "the result", facts: "" }};
            const query = {{ source: source("{first}"), caption: "the query" }};
            openReading({{ query, results: [result], index: 0 }});
        }})"""
    )
    until(page, f"{VIEWERS}.map((viewer) => viewer.count).join() === '{SIZES[series][0]},{SIZES[other][0]}'")
    until_viewers(page, "viewer.picture?.stored")


def drag(page: sync_api.Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Drag over the query from one part of its pane to another."""
    box = page.locator(".reading .viewer-stage").first.bounding_box()
    assert box
    page.mouse.move(box["x"] + start[0] * box["width"], box["y"] + start[1] * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + end[0] * box["width"], box["y"] + end[1] * box["height"], steps=4)
    page.mouse.up()


@pytest.fixture
def sized(page: sync_api.Page, width: int) -> sync_api.Page:
    page.set_viewport_size({"width": width, "height": 900})
    return page


@WIDTHS
def test_slices_are_linked_by_mm(sized: sync_api.Page, datasets: dict[str, pydicom.Dataset]) -> None:
    compare(sized, "1.5.1", "1.5.2", 8, 10)
    sized.get_by_text(
        "Slices move by equal millimetres from where both stood; they are not registered."
    ).wait_for()

    def heights() -> list[float]:
        shown = viewers(sized, "viewer.slice.id")
        return [float(dataset_of(sized, image, datasets).ImagePositionPatient[2]) for image in shown]

    start = heights()
    stage = sized.locator(".reading .viewer-stage").first
    stage.hover()
    for number in (9, 10, 11):
        sized.mouse.wheel(0, 120)
        until(sized, f"{VIEWERS}[0].shownIndex === {number}")
        until_viewers(sized, "viewer.shownIndex === viewer.index")
        moved = np.subtract(heights(), start)
        assert moved[0] == pytest.approx(6 * (number - 8))
        assert abs(moved[1] - moved[0]) <= 1.25  # half the distance of its slices
    sized.get_by_role("checkbox", name="Slices").uncheck()
    still = viewers(sized, "viewer.index")[1]
    stage.hover()
    sized.mouse.wheel(0, -120)
    until(sized, f"{VIEWERS}[0].shownIndex === 10")
    assert viewers(sized, "viewer.index")[1] == still


@WIDTHS
def test_slices_follow_each_other(sized: sync_api.Page, datasets: dict[str, pydicom.Dataset]) -> None:
    compare(sized, "1.5.2", "1.5.1", 3, 3)
    sized.locator(".reading .viewer-stage").first.focus()
    sized.keyboard.press("Home")
    heights = []
    for number in range(1, SIZES["1.5.2"][0] + 1):
        until(sized, f"{VIEWERS}[0].counter.textContent === 'Slice {number} of {SIZES['1.5.2'][0]}'")
        shown = dataset_of(sized, viewers(sized, "viewer.slice.id")[0], datasets)
        heights.append(float(shown.ImagePositionPatient[2]))
        sized.keyboard.press("ArrowDown")
    assert heights == sorted(heights)
    assert len(set(heights)) == SIZES["1.5.2"][0]


def test_without_positions_the_link_is_said_to_be_another(page: sync_api.Page) -> None:
    compare(page, "1.5.1", "1.5.3", 0, 0)
    page.get_by_text("Slices are linked by their share of the series: positions are unknown.").wait_for()
    page.locator(".reading .viewer-stage").first.focus()
    page.keyboard.press("End")
    until(page, f"{VIEWERS}[1].shownIndex === 5")


@WIDTHS
def test_mean_of_an_ellipse_and_length_of_a_line(
    sized: sync_api.Page, datasets: dict[str, pydicom.Dataset]
) -> None:
    compare(sized, "1.5.1", "1.5.2", 8, 10)
    dataset = dataset_of(sized, viewers(sized, "viewer.slice.id")[0], datasets)
    values, (rows, columns) = hounsfield(dataset), map(float, dataset.PixelSpacing)
    stage = sized.locator(".reading .viewer-stage").first
    stage.focus()
    sized.keyboard.press("m")
    drag(sized, (0.3, 0.3), (0.6, 0.45))
    line = viewers(sized, "viewer.shapes")[0][0]
    length = np.hypot((line["b"][0] - line["a"][0]) * columns, (line["b"][1] - line["a"][1]) * rows)
    text = viewers(sized, "viewer.measured.textContent")[0]
    assert float(text.removesuffix(" mm")) == pytest.approx(length, abs=0.051)
    layout = viewers(sized, "viewer.layout")[0]
    assert layout["sy"] / layout["sx"] == pytest.approx(rows / columns)  # pixels are not squares

    stage.focus()
    sized.keyboard.press("m")
    sized.get_by_role("dialog").get_by_role("button", name="Ellipse").first.click()
    drag(sized, (0.4, 0.5), (0.62, 0.7))
    ellipse = viewers(sized, "viewer.shapes")[0][1]
    (left, top), (right, bottom) = ellipse["a"], ellipse["b"]
    down, along = np.indices(values.shape) + 0.5
    inside = ((along - (left + right) / 2) / ((right - left) / 2)) ** 2 + (
        (down - (top + bottom) / 2) / ((bottom - top) / 2)
    ) ** 2 <= 1
    found = re.search(
        r"mean (-?[\d.]+) ± ([\d.]+) HU · ([\d.]+) cm²", viewers(sized, "viewer.measured.textContent")[0]
    )
    assert found
    mean, deviation, area = map(float, found.groups())
    assert mean == pytest.approx(values[inside].mean(), abs=0.051)
    assert deviation == pytest.approx(values[inside].std(), abs=0.051)
    assert area == pytest.approx(np.pi / 4 * (right - left) * (bottom - top) * rows * columns / 100, abs=0.01)

    sized.locator(".reading .viewer-stage").first.focus()
    sized.keyboard.press("ArrowDown")
    until(sized, f"{VIEWERS}[0].shownIndex === 9 && {VIEWERS}[0].measured.textContent === ''")
    sized.keyboard.press("ArrowUp")
    until(sized, f"{VIEWERS}[0].shapes.length === 2")  # measurements stay with their picture


def test_values_are_shown_in_a_window(
    page: sync_api.Page, datasets: dict[str, pydicom.Dataset], tolerated: list[str]
) -> None:
    tolerated.append("willReadFrequently")  # of what the test reads
    compare(page, "1.5.2", "1.5.1", 15, 8)
    values = hounsfield(dataset_of(page, viewers(page, "viewer.slice.id")[0], datasets))
    row, column = 28, 28
    near = values[row - 1 : row + 2, column - 1 : column + 2]
    assert np.ptp(near) < 1  # so that the enlarged picture has one value there
    shown = f"""(() => {{
        const viewer = {VIEWERS}[0];
        const {{ left, top, sx, sy }} = viewer.layout;
        const at = [left + {column + 0.5} * sx, top + {row + 0.5} * sy].map((each) => each * devicePixelRatio);
        return viewer.film.canvas.getContext("2d").getImageData(...at, 1, 1).data[0];
    }})()"""
    page.locator(".reading .viewer-stage").first.focus()
    for key, (center, breadth) in {"4": (40, 400), "6": (480, 2500), "8": (90, 150)}.items():
        page.keyboard.press(key)
        until_viewers(page, f"String(viewer.shownWindow) === '{center},{breadth}'")
        low = center - 0.5 - (breadth - 1) / 2  # PS3.3, C.11.2.1.2
        level = np.clip((values[row, column] - low) / (breadth - 1), 0, 1) * 255
        until(page, f"Math.abs({shown} - {level}) <= 1")
    page.keyboard.press("v")
    until(page, f"Math.abs(255 - {shown} - {level}) <= 1")


def test_shapes_are_made_with_keys(page: sync_api.Page) -> None:
    compare(page, "1.5.1", "1.5.2", 8, 10)
    page.locator(".reading .viewer-stage").first.focus()
    for key in ("m", "Enter", "Shift+ArrowRight", "Shift+ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    (line,) = viewers(page, "viewer.shapes")[0]
    assert line["a"][0] == pytest.approx(0.4 * 64 - 1)
    assert line["b"] == pytest.approx([0.6 * 64, 25])
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowDown")  # slices again
    until(page, f"{VIEWERS}[0].shownIndex === 9")
    assert page.get_by_role("dialog").is_visible()


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core")
@WIDTHS
def test_accessible(sized: sync_api.Page) -> None:
    compare(sized, "1.5.1", "1.5.2", 8, 10)
    found = {"reading": complaints_dark_and_light(sized)}
    sized.locator(".reading .viewer-stage").first.focus()
    for key in ("d", "z", "m", "+"):
        sized.keyboard.press(key)
        found[key] = complaints_dark_and_light(sized)
    assert {state: said for state, said in found.items() if said} == {}


def test_a_file_is_shown_with_its_values(page: sync_api.Page, datasets: dict[str, pydicom.Dataset]) -> None:
    """The query's file is a slice of the third series."""
    dataset = next(each for uid, each in datasets.items() if uid.startswith("1.5.3."))
    page.set_input_files("#file", str(dataset.filename))
    settle(page)
    page.locator("#columns .card").first.click()
    until_viewers(page, "viewer.picture?.stored")
    stored = viewers(page, "[...viewer.picture.stored]")[0]
    assert np.array_equal(np.reshape(stored, dataset.pixel_array.shape), dataset.pixel_array)
