"""Lenses that are found or refused, models on disk, and the descriptor that uses them."""

import json

import numpy as np
import pytest

from cbir import descriptors
from cbir.descriptors.lens_files import LENS_CARD, lens_model_hash, read_lens_card
from cbir.descriptors.networks.model_card import EMBEDDING_CARD
from cbir.descriptors.slit_lamp import (
    AXIS,
    OUTLINE,
    ActiveShapeModel,
    draw_outline,
    fit_lens_finder,
    load_lens_finder,
    measure_lens,
    to_grey,
    write_lens_finder,
)
from cbir.descriptors.slit_lamp_descriptor import slit_lamp_name
from cbir.errors import InvalidInput, NotFound, UnreadableImage
from cbir.evaluation.datasets.phantoms import draw_phantom
from cbir.images import Image
from tests.cbir.descriptors.lenses import draw_lenses, fitted, write_model


def coloured(grey):
    return (grey[:, :, None] * np.array([1.0, 0.9, 0.8])).astype(np.uint8)


def test_lenses_of_others_are_found_and_measured():
    finder, errors = fitted()
    assert errors.shape == (20,)
    assert 0 < errors.mean() < errors.max() < 0.01
    for lens in draw_lenses(10, 1):
        contour = finder.find(Image(lens.pixels))
        assert np.linalg.norm(contour - lens.contour, axis=1).mean() < 0.01 * 96
        assert finder.measure(Image(lens.pixels)).tolist() == measure_lens(lens.pixels, contour).tolist()


def test_the_other_eye():
    finder, _ = fitted()
    for lens in draw_lenses(5, 1):
        other = Image(np.ascontiguousarray(lens.pixels[:, ::-1]))
        found = finder.find(other)
        np.testing.assert_allclose(found[:, 0], 127 - finder.find(Image(lens.pixels))[:, 0], atol=1e-9)
        np.testing.assert_allclose(finder.measure(other), finder.measure(Image(lens.pixels)), atol=0.01)


def test_outlines_of_both_eyes():
    lenses = draw_lenses(12, 0)
    pictures, contours = [to_grey(lens.pixels) for lens in lenses], [lens.contour for lens in lenses]
    alone, errors = fit_lens_finder(pictures, contours)
    for row in (0, 3, 4):
        pictures[row] = np.ascontiguousarray(pictures[row][:, ::-1])
        contours[row] = contours[row] * [-1, 1] + [127, 0]
    both, same = fit_lens_finder(pictures, contours)
    assert both.limit == pytest.approx(alone.limit)
    np.testing.assert_allclose(errors, same, atol=1e-9)


def test_errors_are_of_models_fitted_without_the_image():
    lenses = draw_lenses(20, 0)
    pictures, contours = [to_grey(lens.pixels) for lens in lenses], [lens.contour for lens in lenses]
    others = [row for row in range(20) if row not in (3, 8, 13, 18)]
    model = ActiveShapeModel().fit([pictures[row] for row in others], [contours[row] for row in others])
    for row in (3, 8):
        distances = np.linalg.norm(model.find(pictures[row]) - contours[row], axis=1)
        assert fitted()[1][row] == pytest.approx(distances.mean() / 96, rel=1e-9)


def test_the_limit_is_of_models_fitted_without_the_image():
    pairs = [(to_grey(lens.pixels), lens.contour) for lens in draw_lenses(10, 0)]
    misfits = []
    for fold in range(5):
        pictures, contours = zip(*(pair for row, pair in enumerate(pairs) if row % 5 != fold), strict=True)
        model = ActiveShapeModel().fit(pictures, contours)
        misfits += [model.misfit(picture, model.find(picture)) for picture, _ in pairs[fold::5]]
    assert fitted(10)[0].limit == pytest.approx(8 * np.quantile(misfits, 0.95))


@pytest.mark.parametrize(
    "pixels",
    [
        coloured(draw_phantom(0, 0, 128).pixels),
        coloured(np.zeros((96, 128), np.uint8)),
        coloured(np.full((96, 128), 200, np.uint8)),
        np.random.default_rng(0).integers(0, 256, (96, 128, 3)).astype(np.uint8),
        np.array([[[1, 2, 3]]], np.uint8),
        draw_lenses(1, 1)[0].pixels[::2, ::-1].swapaxes(0, 1),
    ],
    ids=["radiograph", "black", "bright", "noise", "pixel", "lying"],
)
def test_there_is_no_lens(pixels):
    with pytest.raises(UnreadableImage, match="no lens like those"):
        fitted()[0].find(Image(pixels))


def test_a_grey_image_is_refused():
    with pytest.raises(UnreadableImage, match="need colour"):
        fitted()[0].find(Image(to_grey(draw_lenses(1, 1)[0].pixels)))


def test_images_that_are_all_alike():
    lens = draw_lenses(1, 1)[0]
    finder, errors = fit_lens_finder([to_grey(lens.pixels)] * 10, [lens.contour] * 10)
    assert errors.max() < 0.001
    assert finder.limit == 8 * 8  # of profiles of 8 normally distributed values
    np.testing.assert_allclose(finder.find(Image(lens.pixels)), lens.contour, atol=0.1)
    with pytest.raises(InvalidInput, match="all at one place"):
        fit_lens_finder([to_grey(lens.pixels)] * 10, [lens.contour[:1].repeat(32, axis=0)] * 10)


def test_too_few_images():
    lenses = draw_lenses(9, 0)
    with pytest.raises(InvalidInput, match="10 outlined images or more, not 9"):
        fit_lens_finder([to_grey(lens.pixels) for lens in lenses], [lens.contour for lens in lenses])


class TestFiles:
    def test_read_again(self, tmp_path):
        card = write_lens_finder(*fitted(), tmp_path / "new" / "model")
        assert card["images"] == 20
        assert card["landmarks"] == 32
        assert (tmp_path / "new" / "model" / LENS_CARD).stat().st_size < 200_000
        again = load_lens_finder(tmp_path / "new" / "model")
        image = Image(draw_lenses(1, 1)[0].pixels)
        np.testing.assert_allclose(again.find(image), fitted()[0].find(image), atol=1e-3)
        assert again.limit == pytest.approx(fitted()[0].limit)

    def test_nothing_there(self, tmp_path):
        with pytest.raises(NotFound, match="cbir grade slit-lamp fit --out"):
            load_lens_finder(tmp_path)

    @pytest.mark.parametrize(
        "text", ["", "[]", "{}", '{"model": 1}', "[" * 100_000, "{" + " " * 1_100_000 + "}"]
    )
    def test_another_file(self, tmp_path, text):
        (tmp_path / LENS_CARD).write_text(text)
        with pytest.raises(InvalidInput, match="is not the card of a slit-lamp model"):
            load_lens_finder(tmp_path)

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("limit", float("nan")),
            ("limit", "1"),
            ("mean", [[0.0, 0.0]] * 31),
            ("start", [[0.0]] * 32),
            ("modes", []),
            ("modes", [[0.0] * 64] * 101),
            ("variances", [1.0]),
            ("profiles", [[[0.0] * 8] * 32] * 3),
            ("inverses", [[[[None] * 8] * 8] * 32] * 4),
        ],
    )
    def test_numbers_that_do_not_fit(self, tmp_path, field, value):
        card = json.loads((write_model(tmp_path) / LENS_CARD).read_text())
        card["model"][field] = value
        card["sha256"] = lens_model_hash(card["model"])
        (tmp_path / LENS_CARD).write_text(json.dumps(card))
        with pytest.raises(InvalidInput, match="is not the card"):
            load_lens_finder(tmp_path)

    @pytest.mark.parametrize("change", [{"version": 2}, {"landmarks": 30}, {"sha256": "0" * 64}])
    def test_a_damaged_card(self, tmp_path, change):
        card = json.loads((write_model(tmp_path) / LENS_CARD).read_text())
        (tmp_path / LENS_CARD).write_text(json.dumps(card | change))
        with pytest.raises(InvalidInput, match="is not the card"):
            read_lens_card(tmp_path)

    @pytest.mark.parametrize("field", ["mean", "start"])
    def test_a_shape_without_size_is_no_lens(self, tmp_path, field):
        card = json.loads((write_model(tmp_path) / LENS_CARD).read_text())
        card["model"][field] = [[0.0, 0.0]] * 32
        card["sha256"] = lens_model_hash(card["model"])
        (tmp_path / LENS_CARD).write_text(json.dumps(card))
        with pytest.raises(UnreadableImage, match="there is no lens"):
            load_lens_finder(tmp_path).find(Image(draw_lenses(1, 1)[0].pixels))

    def test_a_folder_that_is_taken(self, tmp_path):
        (tmp_path / EMBEDDING_CARD).touch()
        with pytest.raises(InvalidInput, match="holds a trained embedding"):
            write_model(tmp_path)
        (tmp_path / "file").touch()
        with pytest.raises(InvalidInput, match="cannot be written"):
            write_model(tmp_path / "file")


class TestDescriptor:
    def test_the_features_as_float32(self, tmp_path):
        name, title, model = descriptors.resolve_descriptor(str(write_model(tmp_path / "lenses")))
        assert (name, title, model) == (slit_lamp_name(model), "lenses", tmp_path / "lenses")
        describe = descriptors.get(name, model)
        image = Image(draw_lenses(1, 1)[0].pixels)
        values = describe(image)
        assert values.dtype == np.float32
        assert values.tolist() == load_lens_finder(model).measure(image).astype(np.float32).tolist()
        assert [describe.parts[0].start, describe.parts[-1].stop] == [0, describe.dimensions]
        with pytest.raises(UnreadableImage):
            describe(Image(np.zeros((40, 50), np.uint8)))

    def test_the_name_is_the_model(self, tmp_path):
        one, other = write_model(tmp_path / "one"), write_model(tmp_path / "other", 12)
        image = Image(draw_lenses(1, 1)[0].pixels)
        assert slit_lamp_name(one) != slit_lamp_name(other)
        with pytest.raises(InvalidInput, match="holds another model"):
            descriptors.get(slit_lamp_name(one), other)(image)
        with pytest.raises(InvalidInput, match="not available"):
            descriptors.get(slit_lamp_name(one))(image)

    def test_it_stands_alone(self, tmp_path):
        with pytest.raises(InvalidInput, match="there is no trained embedding"):
            descriptors.resolve_descriptor(f"{write_model(tmp_path)}+huang2012")


def test_the_outline_is_drawn_where_it_is():
    lens = draw_lenses(1, 1)[0]
    before = lens.pixels.copy()
    picture = draw_outline(lens.pixels, lens.contour)
    assert picture.shape == lens.pixels.shape
    assert (lens.pixels == before).all()
    x, y = np.rint(lens.contour[8]).astype(int)
    assert np.abs(picture[y, x].astype(int) - OUTLINE).max() < 150
    middle = np.rint((lens.contour[0] + lens.contour[16]) / 2).astype(int)
    assert np.abs(picture[middle[1], middle[0]].astype(int) - AXIS).max() < 150
    assert (picture[:5] == before[:5]).all()
