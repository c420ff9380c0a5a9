"""Cells of images by small networks: sizes, borders, flat places, values that are not finite."""

import numpy as np
import pytest

from cbir.descriptors.encoders import Encoder
from cbir.descriptors.encoders.encoder_files import EncoderCard, EncoderInput, EncoderOutput, write_network
from cbir.errors import InvalidInput
from cbir.images import Image
from cbir.search.feature_cells import feature_cells
from tests.cbir.descriptors.encoders import onnx_models


def make_encoder(folder, content, fit="squash", **output):
    card = EncoderCard(
        name=f"small-{fit}",
        title="small",
        source="test",
        sha256="0" * 64,
        input=EncoderInput(width=16, height=16, mean=(0, 0, 0), deviation=(1, 1, 1), fit=fit),
        outputs=(EncoderOutput(**output),),
    )
    write_network(folder, card, content)
    return Encoder(card, folder)


@pytest.fixture
def encoder(tmp_path):
    return make_encoder(tmp_path, onnx_models.convolution(), tensor="maps", pooling="max", dimensions=4)


def describe(encoder, image):
    return feature_cells(encoder, encoder.prepare(image), image.width, image.height)


def test_cells_are_the_places_of_the_map(encoder):
    image = Image(np.random.default_rng(0).integers(0, 256, (16, 16), np.uint8))
    cells = describe(encoder, image)
    expected = encoder.maps(encoder.prepare(image))["maps"][0]
    assert cells.values.shape == (4, 4, 4)
    for row, column in np.ndindex(4, 4):
        np.testing.assert_array_equal(cells.values[row, column], expected[:, row, column])
    assert (cells.texture == 1).all()


def test_finer_maps_are_averaged(encoder, monkeypatch):
    image = Image(np.random.default_rng(0).integers(0, 256, (16, 16), np.uint8))
    fine = describe(encoder, image)
    monkeypatch.setattr("cbir.search.feature_cells.MOST_CELLS", 2)
    coarse = describe(encoder, image)
    for row, column in np.ndindex(2, 2):
        block = fine.values[2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        assert coarse.values[row, column] == pytest.approx(block.mean(axis=(0, 1)), rel=1e-5)
    assert coarse.texture.shape == (2, 2)


def test_flat_parts_have_no_texture(encoder):
    pixels = np.full((16, 16), 90, np.uint8)
    pixels[:4, 4:8] = np.random.default_rng(0).integers(0, 256, (4, 4))
    assert np.argwhere(describe(encoder, Image(pixels)).texture).tolist() == [[0, 1]]


def test_texture_grows_with_the_deviation_of_grey_values(encoder):
    pixels = np.full((16, 16), 90, np.uint8)
    pixels[::2, :4] += 4 * 2  # deviates by 4
    pixels[::2, 4:8] += 2 * 2
    texture = describe(encoder, Image(pixels)).texture
    assert texture[:, 0] == pytest.approx(0.5, abs=0.01)
    assert not texture[:, 1:].any()


@pytest.mark.parametrize(("height", "width", "shape"), [(8, 16, (2, 4)), (16, 8, (4, 2)), (1, 90, (1, 4))])
def test_a_border_is_left_out(tmp_path, height, width, shape):
    network = onnx_models.convolution()
    encoder = make_encoder(tmp_path, network, "letterbox", tensor="maps", pooling="max", dimensions=4)
    cells = describe(encoder, Image(np.zeros((height, width), np.uint8)))
    assert cells.values.shape[:2] == shape
    assert cells.area == (0, 0, 1, 1)


def test_an_image_that_is_cut_has_cells_of_its_middle(tmp_path):
    network = onnx_models.convolution()
    encoder = make_encoder(tmp_path, network, "crop", tensor="maps", pooling="max", dimensions=4)
    assert describe(encoder, Image(np.zeros((10, 40), np.uint8))).area == (0.375, 0, 0.25, 1)
    assert describe(encoder, Image(np.zeros((40, 10), np.uint8))).area == (0, 0.375, 1, 0.25)


def test_an_encoder_without_places_is_refused(tmp_path):
    encoder = make_encoder(tmp_path, onnx_models.vector(), tensor="vector", pooling="none", dimensions=5)
    with pytest.raises(InvalidInput, match="no values for places"):
        describe(encoder, Image(np.zeros((16, 16), np.uint8)))


def test_values_that_are_not_finite_become_0(tmp_path):
    weights = np.full((4, 3, 4, 4), np.nan)
    network = onnx_models.convolution(weights)
    encoder = make_encoder(tmp_path, network, tensor="maps", pooling="max", dimensions=4)
    assert not describe(encoder, Image(np.zeros((16, 16), np.uint8))).values.any()
