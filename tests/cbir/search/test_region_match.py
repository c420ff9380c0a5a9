"""Matching a region with stored cells, against a slow reference with loops."""

from itertools import product

import numpy as np
import pytest

from cbir.search.feature_cells import FeatureCells
from cbir.search.region_cells import (
    ASIDE,
    FEW,
    LARGEST,
    SIZES,
    RegionTemplate,
    fit_cell_projection,
    project_cells,
    stored_cells,
)


def unit(values):
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


def slow_match(template, image):
    """Return score and box by trying every place, cell after cell."""
    side, best, box = len(image), -np.inf, None
    for size in SIZES:
        rows = np.rint(template.rows * size).astype(int)
        columns = np.rint(template.columns * size).astype(int)
        for top, left in product(range(side - rows.max()), range(side - columns.max())):
            score = 0.0
            for cell, weight, row, column in zip(
                template.cells, template.weights, rows + top, columns + left, strict=True
            ):
                near = image[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
                here = image[row, column].astype(float) / LARGEST @ cell
                score += weight * max(here, (near.astype(float) / LARGEST @ cell).max() - ASIDE)
            if score > best + 1e-9:
                best = score
                box = [left / side, top / side, (columns.max() + 1) / side, (rows.max() + 1) / side]
    return best, box


def draw_template(random, down, across):
    rows, columns = (places.ravel() for places in np.mgrid[:down, :across])
    weights = random.uniform(0.1, 1, down * across).astype(np.float32)
    cells = unit(random.normal(size=(down * across, 5))).astype(np.float32)
    return RegionTemplate(cells, weights / weights.sum(), rows, columns)


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (2, 5), (6, 6)])
def test_scores_and_boxes_are_those_of_a_slow_reference(shape):
    random = np.random.default_rng(sum(shape))
    template = draw_template(random, *shape)
    stored = np.rint(unit(random.normal(size=(4, 6, 6, 5))) * LARGEST).astype(np.int8)
    scores, boxes = template.match(stored)
    for image, score, box in zip(stored, scores, boxes, strict=True):
        expected, place = slow_match(template, image)
        assert score == pytest.approx(expected, abs=1e-5)
        assert box == pytest.approx(place, abs=1e-6)


def test_a_region_is_found_where_it_was_put():
    random = np.random.default_rng(1)
    stored = np.rint(unit(random.normal(size=(3, 8, 8, 5))) * LARGEST).astype(np.int8)
    template = draw_template(random, 3, 3)
    stored[1, 4:7, 2:5] = np.rint(template.cells * LARGEST).reshape(3, 3, 5)
    scores, boxes = template.match(stored)
    assert scores.argmax() == 1
    assert scores[1] == pytest.approx(1, abs=0.02)
    assert boxes[1] == pytest.approx([2 / 8, 4 / 8, 3 / 8, 3 / 8])


def test_images_without_texture_score_0():
    template = draw_template(np.random.default_rng(2), 2, 2)
    scores, _ = template.match(np.zeros((1, 6, 6, 5), np.int8))
    assert scores.tolist() == [0]


def test_a_template_larger_than_the_image_lies_on_its_edge():
    template = draw_template(np.random.default_rng(3), 6, 6)
    scores, boxes = template.match(np.full((1, 3, 3, 5), 50, np.int8))
    assert np.isfinite(scores).all()
    assert boxes[0] == pytest.approx([0, 0, 1, 1])


def draw_image(random, side=6, texture=1.0):
    values = random.normal(size=(side, side, 40)).astype(np.float32) * np.linspace(
        0.1, 9, 40, dtype=np.float32
    )
    return FeatureCells(values, np.full((side, side), texture, np.float32))


def test_stored_cells_have_the_directions_of_the_projected_values():
    random = np.random.default_rng(4)
    images = [draw_image(random) for _ in range(5)]
    projection = fit_cell_projection(images)
    stored = stored_cells(projection, images[0])
    assert stored.dtype == np.int8
    assert stored.shape == (6, 6, 32)
    exact = project_cells(projection, images[0].values)
    assert np.linalg.norm(exact, axis=2) == pytest.approx(1, abs=1e-5)
    assert np.abs(stored / LARGEST - exact).max() <= 0.51 / LARGEST


def test_cells_without_texture_are_stored_as_0_and_do_not_fit_the_projection():
    random = np.random.default_rng(5)
    images = [draw_image(random) for _ in range(3)]
    flat = FeatureCells(np.full((6, 6, 40), 1e4, np.float32), np.zeros((6, 6), np.float32))
    projection = fit_cell_projection([*images, flat])
    assert projection.mean == pytest.approx(fit_cell_projection(images).mean, abs=1e-3)
    assert not stored_cells(projection, flat).any()


def test_equal_cells_everywhere_have_no_direction():
    alike = FeatureCells(np.ones((4, 4, 40), np.float32), np.ones((4, 4), np.float32))
    projection = fit_cell_projection([alike])
    assert not stored_cells(projection, alike).any()


def test_a_thinned_region_has_the_cells_with_most_texture():
    template = draw_template(np.random.default_rng(6), 5, 5)
    few = template.thinned()
    assert len(few.cells) == FEW
    assert few.weights.sum() == pytest.approx(1)
    strongest = template.weights.argmax()
    places = list(zip(few.rows, few.columns, strict=True))
    assert (template.rows[strongest], template.columns[strongest]) in places
    assert few.thinned() is few
