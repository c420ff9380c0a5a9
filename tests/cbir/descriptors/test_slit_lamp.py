"""Slit-lamp phantoms, the lens found in them, and its six features against what was drawn."""

import cv2
import numpy as np
import pytest
from scipy.stats import spearmanr

from cbir.descriptors.shape_model import align_shapes
from cbir.descriptors.slit_lamp import FEATURES, ActiveShapeModel, measure_lens
from cbir.errors import InvalidInput, UnreadableImage
from cbir.evaluation.datasets.phantoms.lens_phantom import draw_lens

# The largest error of each feature over the phantoms below, at a height of 240 pixels.
ALLOWED = dict(zip(FEATURES, (0.012, 0.012, 0.03, 0.05, 0.03, 0.08), strict=True))


def grey(phantom):
    return cv2.cvtColor(phantom.pixels, cv2.COLOR_RGB2GRAY)


@pytest.fixture(scope="module")
def phantoms():
    random = np.random.default_rng(0)
    return [draw_lens(grade, random, height=240) for grade in random.uniform(0, 5, 90)]


@pytest.fixture(scope="module")
def model(phantoms):
    return ActiveShapeModel().fit([grey(p) for p in phantoms[:40]], [p.contour for p in phantoms[:40]])


def test_a_phantom():
    one, again = (draw_lens(2.5, np.random.default_rng(3)) for _ in range(2))
    assert one.pixels.shape == (120, 160, 3)
    assert one.pixels.dtype == np.uint8
    np.testing.assert_array_equal(one.pixels, again.pixels)
    assert one.contour.shape == (32, 2)
    assert (one.contour > 0).all()
    assert (one.contour < [160, 120]).all()
    assert one.contour[0, 0] < one.contour[16, 0]
    assert one.contour[8, 1] < one.contour[24, 1]
    assert (draw_lens(2.5, np.random.default_rng(4)).pixels != one.pixels).any()


@pytest.mark.slow
def test_every_feature_follows_the_grade(phantoms):
    grades = [phantom.grade for phantom in phantoms]
    signs = (1, -1, 1, -1, 1, 1)
    for feature, values, sign in zip(
        FEATURES, zip(*(p.truth for p in phantoms), strict=True), signs, strict=True
    ):
        assert sign * spearmanr(grades, values).statistic > 0.6, feature


@pytest.mark.parametrize(
    "options", [{"grade": -0.1}, {"grade": 5.1}, {"grade": np.nan}, {"height": 63}, {"height": 9999}]
)
def test_phantoms_refuse(options):
    with pytest.raises(InvalidInput, match="phantom"):
        draw_lens(**{"grade": 1.0, "generator": np.random.default_rng(0), **options})


@pytest.mark.parametrize("feature", FEATURES)
def test_feature_on_the_true_contour(phantoms, feature):
    at = FEATURES.index(feature)
    errors = [
        abs(measure_lens(phantom.pixels, phantom.contour)[at] - phantom.truth[at]) for phantom in phantoms
    ]
    assert max(errors) < ALLOWED[feature]


@pytest.mark.slow
@pytest.mark.parametrize("feature", FEATURES)
def test_feature_on_the_contour_that_was_found(phantoms, model, feature):
    at = FEATURES.index(feature)
    errors = [abs(measure_lens(p.pixels, model.find(grey(p)))[at] - p.truth[at]) for p in phantoms[40:60]]
    assert max(errors) < ALLOWED[feature]


def test_mean_intensity_is_that_of_the_pixels_inside():
    pixels = np.zeros((50, 60, 3), np.uint8)
    pixels[10:40, 20:50] = 100
    square = np.array([[20, 25], [20, 10], [35, 10], [49, 10], [49, 25], [49, 39], [35, 39], [20, 39.0]])
    found = measure_lens(pixels, square)
    assert found[0] == pytest.approx(100 / 255)
    assert found[2] == 0
    assert found[3] == pytest.approx(100 / 255, abs=1e-3)
    assert found[5] == pytest.approx(1, abs=0.02)


def test_red_is_the_mean_of_hues_to_either_side_of_it():
    pixels = np.zeros((50, 60, 3), np.uint8)
    pixels[:25] = (200, 0, 20)
    pixels[25:] = (200, 20, 0)
    square = np.array([[10, 24.5], [10, 5], [30, 5], [49, 5], [49, 24.5], [49, 44], [30, 44], [10, 44]])
    assert min(measure_lens(pixels, square)[1], 1 - measure_lens(pixels, square)[1]) < 0.01


@pytest.mark.parametrize(
    ("pixels", "contour", "said"),
    [
        (np.zeros((9, 9), np.uint8), np.ones((8, 2)), "RGB"),
        (np.zeros((9, 9, 3)), np.ones((8, 2)), "RGB"),
        (np.zeros((9, 9, 3), np.uint8), np.ones((7, 2)), "multiple of 4"),
        (np.zeros((9, 9, 3), np.uint8), np.ones((8, 3)), "multiple of 4"),
        (np.zeros((9, 9, 3), np.uint8), np.full((8, 2), np.nan), "finite"),
        (np.zeros((9, 9, 3), np.uint8), np.full((8, 2), 1e9), "no pixel"),
    ],
)
def test_measure_refuses(pixels, contour, said):
    with pytest.raises(InvalidInput, match=said):
        measure_lens(pixels, contour)


def test_a_black_image_has_finite_features():
    phantom = draw_lens(1.0, np.random.default_rng(0))
    assert np.isfinite(measure_lens(np.zeros_like(phantom.pixels), phantom.contour)).all()


@pytest.mark.slow
def test_the_lens_is_found(phantoms, model):
    distances, before = [], []
    for phantom in phantoms[40:]:
        found = model.find(grey(phantom))
        distances.append(np.linalg.norm(found - phantom.contour, axis=1).mean())
        start = model.start_ * 240 + [159.5, 119.5]  # from the middle
        before.append(np.linalg.norm(start - phantom.contour, axis=1).mean())
    assert np.mean(before) > 8
    assert np.mean(distances) < 0.6
    assert np.max(distances) < 1.5


@pytest.mark.parametrize("height", [97, 360, 1000])
def test_found_in_another_size(model, height):
    phantom = draw_lens(3.0, np.random.default_rng(9), height=height)
    found = model.find(grey(phantom))
    assert np.linalg.norm(found - phantom.contour, axis=1).mean() < 0.005 * height


def test_found_in_a_wider_crop(model):
    phantom = draw_lens(3.0, np.random.default_rng(9), height=240)
    wider = np.pad(grey(phantom), ((0, 0), (80, 80)), mode="edge")
    found = model.find(wider)
    np.testing.assert_allclose(found, phantom.contour + np.array([80, 0]), atol=2.5)


@pytest.mark.parametrize("shape", [(10, 41), (41, 10)])
def test_a_strip_is_refused(model, shape):
    with pytest.raises(UnreadableImage, match=f"{shape[1]} x {shape[0]} pixels"):
        model.find(np.zeros(shape, np.uint8))


def test_the_misfit_is_least_on_the_outline(phantoms, model):
    for phantom in phantoms[40:45]:
        on = model.misfit(grey(phantom), phantom.contour)
        assert on < 0.2 * model.misfit(grey(phantom), phantom.contour + np.array([3, 0]))
        assert on < 0.2 * model.misfit(np.zeros((240, 320), np.uint8), phantom.contour)


def test_the_closest_shape_is_one_of_the_model(phantoms, model):
    own = phantoms[50].contour
    assert np.abs(model.closest(own) - own).max() < 1.5
    spoilt = own.copy()
    spoilt[3] += 60
    assert np.abs(model.closest(spoilt)[3] - own[3]).max() < 20
    turned = (own - own.mean(0)) @ np.array([[0, 1], [-1, 0]]) * 3 + 500
    assert np.abs(model.closest(turned) - turned).max() < 4.5


def test_alignment_takes_out_scale_turn_and_shift():
    shape = np.random.default_rng(0).normal(size=(12, 2))
    c, s = np.cos(1.0), np.sin(1.0)
    mean, aligned = align_shapes(np.stack([shape, 5 * shape @ np.array([[c, s], [-s, c]]) + 100]))
    np.testing.assert_allclose(aligned[0], aligned[1], atol=1e-9)
    assert np.linalg.norm(mean) == pytest.approx(1)
    np.testing.assert_allclose(mean.mean(axis=0), 0, atol=1e-12)


def test_an_image_of_nothing_gives_a_shape_of_the_model(model):
    found = model.find(np.zeros((240, 320), np.uint8))
    assert found.shape == (32, 2)
    assert np.isfinite(found).all()


def test_fit_refuses(phantoms):
    images, contours = [grey(p) for p in phantoms[:6]], [p.contour for p in phantoms[:6]]
    for wrong in (
        (images[:4], contours[:4]),
        (images, contours[:5]),
        (images, [*contours[:5], contours[5][:8]]),
    ):
        with pytest.raises(InvalidInput):
            ActiveShapeModel().fit(*wrong)
    with pytest.raises(InvalidInput, match="variance"):
        ActiveShapeModel(0.0).fit(images, contours)
    kept = ActiveShapeModel(1.0).fit(images, contours)
    assert len(kept.variances_) > len(ActiveShapeModel(0.5).fit(images, contours).variances_)
