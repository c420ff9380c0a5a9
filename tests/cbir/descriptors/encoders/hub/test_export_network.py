"""Export of torch networks: what cannot be stored is refused."""

import pytest
import torch
from torch import nn

from cbir.descriptors.encoders.hub.export_network import export_network
from cbir.descriptors.encoders.hub.hub_network import make_input
from cbir.errors import InvalidInput

INPUT = make_input((16, 16), "squash", "bilinear", (0.5,) * 3, (0.5,) * 3)


class Noisy(nn.Module):
    """A network that gives other values each time."""

    def forward(self, images):
        return images.mean((2, 3)) + torch.rand(1, 3)


class Infinite(nn.Module):
    """A network that divides by 0."""

    def forward(self, images):
        return images.mean((2, 3)) / 0.0


@pytest.mark.slow
def test_other_values_than_those_of_torch_are_refused():
    with pytest.raises(
        InvalidInput, match=r"as ONNX the network gives other values than with torch: they differ by \d"
    ):
        export_network(Noisy().eval(), INPUT)


@pytest.mark.slow
def test_values_that_are_not_finite_are_refused():
    with pytest.raises(InvalidInput, match="the network's values are not finite for a random image"):
        export_network(Infinite().eval(), INPUT)


def test_networks_larger_than_a_file_are_refused():
    network = nn.Linear(1 << 16, 1 << 13, bias=False, device="meta")
    with pytest.raises(
        InvalidInput, match="the network's weights have 2048 MiB, and an ONNX file at most 2047"
    ):
        export_network(network, INPUT)
