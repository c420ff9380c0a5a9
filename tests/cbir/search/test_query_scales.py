"""Cut-outs are found at the size that they have in the image; whole images stay as they are."""

import numpy as np
import pytest

from cbir.descriptors.encoders import Encoder
from cbir.descriptors.encoders.encoder_files import EncoderCard, EncoderInput, EncoderOutput, write_network
from cbir.images import Image
from cbir.search.feature_cells import (
    WHOLE,
    best_match_maps,
    cells_by_scale,
    feature_cells,
    query_cells,
)
from tests.cbir.descriptors.encoders import onnx_models


def make_encoder(folder, fit="squash"):
    card = EncoderCard(
        name=f"places-{fit}",
        title="places",
        source="test",
        sha256="0" * 64,
        input=EncoderInput(width=16, height=16, mean=(0, 0, 0), deviation=(1, 1, 1), fit=fit),
        outputs=(EncoderOutput(tensor="maps", pooling="max", dimensions=4),),
    )
    write_network(folder, card, onnx_models.convolution(stride=2))
    return Encoder(card, folder)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return make_encoder(tmp_path_factory.mktemp("encoders"))


@pytest.fixture
def image():
    return Image(np.random.default_rng(0).integers(0, 256, (16, 16), np.uint8))


def described(encoder, image, function=cells_by_scale, *options):
    return function(encoder, encoder.prepare(image), image.width, image.height, *options)


def test_sizes(encoder, image):
    cells = described(encoder, image)
    assert [each.values.shape for each in cells] == [(side, side, 4) for side in (8, 4, 3, 2)]
    assert [each.texture.shape for each in cells] == [(side, side) for side in (8, 4, 3, 2)]


def test_a_whole_image_is_matched_at_its_size(encoder, image):
    cells = described(encoder, image, feature_cells)
    maps = best_match_maps(described(encoder, image), cells)
    assert maps.query.shape == (8, 8)
    assert maps.query == pytest.approx(cells.texture, abs=1e-4)


def test_a_cut_out_is_found_in_its_image(encoder):
    random = np.random.default_rng(1)
    pixels = random.integers(0, 256, (16, 16), np.uint8)
    part = pixels[10:14, 2:6]
    enlarged = Image(np.kron(part, np.ones((4, 4), np.uint8)))  # 2 of 8 cells
    maps = best_match_maps(described(encoder, enlarged), described(encoder, Image(pixels), feature_cells))
    assert maps.query.shape == (2, 2)
    row, column = np.unravel_index(maps.answer.argmax(), (8, 8))
    assert 5 <= row < 7
    assert 1 <= column < 3


def test_a_region_keeps_its_size(encoder, image):
    assert len(described(encoder, image, query_cells, (0.0, 0.0, 0.5, 0.5))) == 1
    assert len(described(encoder, image, query_cells, WHOLE)) == 4


def test_images_with_a_border_keep_their_size(tmp_path):
    image = Image(np.random.default_rng(0).integers(0, 256, (8, 16), np.uint8))
    assert len(described(make_encoder(tmp_path, "letterbox"), image)) == 1


def test_one_pixel(encoder):
    one, other = Image(np.full((1, 1), 9, np.uint8)), Image(np.zeros((16, 16), np.uint8))
    maps = best_match_maps(described(encoder, one), described(encoder, other, feature_cells))
    assert not maps.query.any()
    assert not maps.answer.any()
