"""What the page says about all results together."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from playwright import sync_api

from cbir.evaluation.datasets.phantoms.phantom_files import write_phantoms
from tests.e2e.browsing import choose, settle
from tests.service.conftest import command, serving

STRIPES = 40  # pixels
COUNT = 105


def shown(page: sync_api.Page, name: str) -> str:
    return page.locator(f"#{name}").inner_text()


def test_shares_of_a_label_are_drawn_and_counted(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    overview = page.get_by_role("region", name="Overview of the results")
    overview.wait_for()
    keys = overview.get_by_label("Shares of").locator("option").all_inner_texts()
    assert keys[0] == "label"
    legend = overview.get_by_role("listitem").all_inner_texts()
    counts = [int(text.rsplit(" ", 3)[-3]) for text in legend]
    assert sum(counts) == 20
    assert page.locator("#share-bar .share").count() == len(legend)
    widths = [box.bounding_box()["width"] for box in page.locator("#share-bar .share").all()]  # type: ignore[index]
    assert widths == sorted(widths, reverse=True)
    assert "of the first 10 results agree on" in shown(page, "agreement")

    overview.get_by_text("What the figures mean").click()
    assert overview.get_by_text("Comparable within one list of results only").is_visible()


def test_an_image_like_the_collection_is_usual(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    assert "for this collection: likeness" in shown(page, "likeness")
    assert page.locator("#outlier-advice").is_hidden()


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of so many images that one in a hundred is one."""
    folder = tmp_path_factory.mktemp("hundred")
    write_phantoms(folder / "scans", COUNT)
    command("index", folder / "scans", "--collection", folder / "collection", "--jobs", "1")
    return folder / "collection"


def test_an_image_unlike_all_others_is_called_so(page: sync_api.Page, hundred: Path, tmp_path: Path) -> None:
    picture = np.zeros((200, 200, 3), np.uint8)
    picture[:, :STRIPES], picture[:, -STRIPES:], picture[80:120] = (0, 0, 255), (0, 255, 0), (255, 0, 0)
    cv2.imwrite(str(tmp_path / "flag.png"), picture)
    with serving(hundred) as served:
        page.goto(served.address)
        page.set_input_files("#file", tmp_path / "flag.png")
        settle(page)
        assert shown(page, "likeness") == "Nothing here looks like your image"
        assert "least unlike" in shown(page, "outlier-advice")
        page.goto("about:blank")
    _, out, _ = command("search", tmp_path / "flag.png", "--collection", hundred)
    assert "nothing in the collection looks like the query image" in out


def test_the_overview_goes_with_the_results(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    page.locator("#overview").wait_for()
    page.fill("#where", "label=none of them")
    page.locator("#go").click()
    page.locator("#nothing, #problem").first.wait_for(state="attached")
    page.locator("#overview").wait_for(state="hidden")
