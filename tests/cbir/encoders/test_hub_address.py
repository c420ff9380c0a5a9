"""Names of networks on hubs."""

import pytest

from cbir import descriptors, encoders
from cbir.encoders.hub_address import parse_hub_address
from cbir.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("torchvision:resnet18", "torchvision-resnet18"),
        ("timm:vit_small_patch14_dinov2.lvd142m", "timm-vit_small_patch14_dinov2.lvd142m"),
        ("hf:microsoft/rad-dino", "hf-microsoft--rad-dino"),
        ("hf:Org_1/Model.v2", "hf-org_1--model.v2"),
    ],
)
def test_encoder_names(text, name):
    assert parse_hub_address(text).encoder_name == name
    assert str(parse_hub_address(text)) == text


def test_long_names_stay_different():
    first, second = (parse_hub_address(f"hf:org/{'x' * 80}{end}").encoder_name for end in "ab")
    assert len(first) == len(second) == 64
    assert first != second


@pytest.mark.parametrize(
    "text",
    ["hf:name", "hf:a/b/c", "hf:../b", "timm:a/b", "timm:", "torchvision:a b", "hf:a/.b", "hf:a/b\n", "x:a"],
)
def test_other_names_are_refused(text):
    with pytest.raises(InvalidInput, match="not a network on a hub"):
        parse_hub_address(text)


@pytest.mark.parametrize("name", ["hf:org/model", "hf:org/model+huang2012"])
def test_networks_that_are_not_stored_name_the_command(name):
    with pytest.raises(
        InvalidInput, match=r"^hf:org/model is not stored yet; .*: cbir encoder get hf:org/model$"
    ):
        descriptors.resolve_descriptor(name)
    assert encoders.is_encoder("hf:org/model")
    assert not encoders.is_encoder("org/model")
