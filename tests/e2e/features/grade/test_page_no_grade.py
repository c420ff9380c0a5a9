"""An image unlike the graded ones has no grade, and the page says nothing of it."""

from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from playwright import sync_api

from cbir.learn.grading import make_ranker
from cbir.learn.grading.grader import fit_grader
from tests.cbir.learn.grading.cases import collection_of
from tests.e2e.browsing import settle
from tests.service.conftest import Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    pictures = tmp_path_factory.mktemp("graded")
    folder = pictures / "collection"
    with collection_of(folder, range(120), pictures) as collection:  # type: ignore[no-untyped-call]
        fit_grader(collection, "grade", make_ranker("ranking-svm"))
    with serving(folder) as running:
        yield running


def test_an_image_unlike_the_graded_ones(page: sync_api.Page, tmp_path: Path) -> None:
    pixels = np.zeros((32, 32), np.uint8)
    pixels[16:, ::2] = 255
    cv2.imwrite(str(tmp_path / "stripes.png"), pixels)
    page.set_input_files("#file", tmp_path / "stripes.png")
    settle(page)
    page.locator(".verdict").wait_for()
    assert page.locator("#grade").count() == 0
