"""The grade of the query, one line."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright import sync_api

from cbir.images import read_images
from cbir.learn.grading import make_ranker
from cbir.learn.grading.grader import Grader, fit_grader
from cbir.store import Collection
from tests.e2e.browsing import choose, settle
from tests.e2e.test_page_axe import AXE, complaints
from tests.service.conftest import Served, index_once, serving


@pytest.fixture(scope="module")
def graded(pictures: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection that has learnt from the label `severity`; huang2012 has few values, which takes less time."""
    folder = index_once(pictures, tmp_path_factory, "indexed", "--profile", "huang2012")
    with Collection(folder) as collection:
        fit_grader(collection, "severity", make_ranker("s-ndcg"))
    return folder


@pytest.fixture(scope="module")
def served(graded: Path) -> Iterator[Served]:
    with serving(graded) as running:
        yield running


def test_the_grade_of_a_file(page: sync_api.Page, graded: Path, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    with Collection(graded) as collection:
        expected = Grader(collection, "severity").by_image(next(iter(read_images(pictures[-1]))))
    said = " ".join(page.locator("#grade").inner_text().split())
    assert said == f"severity {expected.grade:.1f} ({expected.low:.1f} to {expected.high:.1f})"


def test_the_grade_stays_when_the_settings_change(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    said = page.locator("#grade").inner_text()
    page.locator("#group").click()
    page.get_by_role("button", name="Every image").click()
    settle(page)
    assert page.locator("#grade").inner_text() == said


def test_the_grade_of_an_image_of_the_collection(page: sync_api.Page) -> None:
    page.locator("#start .card").first.click()
    settle(page)
    assert page.locator("#grade").inner_text().startswith("severity")


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core; `make axe` brings it")
def test_accessible(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    page.locator("#grade").wait_for()
    assert complaints(page) == []
