"""The panel with the grade of the query and its two neighbours."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright import sync_api

from cbir.images import read_images
from cbir.learn.grading import make_ranker
from cbir.learn.grading.grader import Grader, fit_grader
from cbir.store import Collection
from tests.e2e.browsing import choose, settle, until
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
    assert page.locator("#grading").is_hidden()
    choose(page, pictures[-1])
    page.wait_for_selector("#grading:not([hidden])")
    with Collection(graded) as collection:
        expected = Grader(collection, "severity").by_image(next(iter(read_images(pictures[-1]))))
    said = page.locator("#grades .grade").inner_text()
    assert f"severity {expected.grade:.1f}" in said
    assert f"from {expected.low:.1f} to {expected.high:.1f}" in said
    neighbours = [one.image_id for one in (expected.lighter, expected.severer) if one]
    cards = page.locator("#grades .card")
    assert [cards.nth(place).get_attribute("data-image") for place in range(cards.count())] == neighbours
    page.wait_for_function(
        "[...document.querySelectorAll('#grades img')].every((image) => image.naturalWidth)"
    )


def test_on_to_a_neighbour_and_its_own_grade(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    first = page.locator("#grades .card").first
    image, before = first.get_attribute("data-image"), page.locator("#grades").inner_text()
    first.click()
    settle(page)
    assert f"image={image}" in page.url
    until(page, f"document.getElementById('grades').innerText !== {json.dumps(before)}")
    page.wait_for_selector("#grading:not([hidden]) .grade")
    assert page.locator("#grades .grade").count() == 1


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core; `make axe` brings it")
def test_accessible(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    page.wait_for_selector("#grading:not([hidden])")
    assert complaints(page) == []
