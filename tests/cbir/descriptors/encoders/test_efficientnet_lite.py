"""Networks equal to the reference implementation, with real weights."""

import contextlib
import io
import warnings

import numpy as np
import pytest
import torch

from cbir.descriptors import encoders
from cbir.descriptors.encoders.built_in import weights_path
from cbir.descriptors.encoders.encoder_network import EncoderNetwork
from cbir.descriptors.networks.model_card import open_onnx_session
from cbir.images import Image
from tests.cbir.descriptors.pictures import draw

CASES = [
    ("lite0-whole", "efficientnet-lite0", (10, 15)),
    ("lite0-max", "efficientnet-lite0", (10, 14, 15)),
    ("lite1-whole", "efficientnet-lite1", (14, 20)),
]


def reference_maps(model, path, pixels, blocks):
    """Return the outputs of these blocks of the network of efficientnet-lite-pytorch."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), torch.inference_mode():
        warnings.simplefilter("ignore")
        from efficientnet_lite_pytorch import EfficientNet

        network = EfficientNet.from_pretrained(model, weights_path=str(path)).eval()
        values = (torch.from_numpy(pixels).float() / 255 - 0.498) / 0.502
        current = network._swish(network._bn0(network._conv_stem(values.permute(2, 0, 1)[None])))
        maps = []
        for number, block in enumerate(network._blocks):
            current = block(current)
            if number in blocks:
                maps.append(current.numpy())
    return maps


@pytest.mark.parametrize(("name", "model", "blocks"), CASES)
def test_maps_equal_the_reference(name, model, blocks):
    encoder = encoders.get(name)
    pixels = encoder.prepare(Image(draw("smooth", (250, 330, 3), 4)))
    network = EncoderNetwork(open_onnx_session(encoder.store().read_bytes()), encoder.card)
    expected = reference_maps(model, weights_path(name), pixels, blocks)
    maps = sorted(network.run(pixels).values(), key=lambda values: values.shape[1])
    for values, reference in zip(maps, expected, strict=True):
        assert values.shape == reference.shape
        assert np.abs(values - reference).max() < 1e-4 * np.abs(reference).max()


@pytest.mark.parametrize("name", ["lite0", "lite1"])
def test_cut_network_gives_the_first_values_of_the_whole(name):
    image = Image(draw("stripes", (90, 70), 3))
    cut, whole = encoders.get(name), encoders.get(f"{name}-whole")
    values, both = (encoder.describe_batch([encoder.prepare(image)])[0] for encoder in (cut, whole))
    assert both[: len(values)] == pytest.approx(values, rel=1e-4, abs=1e-4)
    assert cut.store().stat().st_size < whole.store().stat().st_size / 3
