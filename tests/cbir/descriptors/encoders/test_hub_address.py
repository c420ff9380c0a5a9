"""Names of networks on hubs."""

import pytest
from typer.testing import CliRunner

from cbir import descriptors
from cbir.api.main import app
from cbir.descriptors import encoders
from cbir.descriptors.encoders import parse_hub_address
from cbir.errors import InvalidInput
from tests.cbir.descriptors.encoders.onnx_models import store_brightness


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
    ("source", "used", "refused"),
    [
        ("hf:a/b--c at 0123456789", ["hf:a/b--c", "hf:A/B--c"], "hf:a--b/c"),
        ("hf:a--b/c, from folder", ["hf:a--b/c"], "hf:a/b--c"),
        ("model.onnx", [], "hf:a/b--c"),
        ("hf:a/b--c2 at 0123456789", [], "hf:a/b--c"),
    ],
)
def test_networks_with_the_same_stored_name_are_told_apart(source, used, refused, encoder_folder):
    store_brightness(encoder_folder, "hf-a--b--c", source)
    for text in used:
        assert encoders.get(text).card.source == source
        assert descriptors.resolve_descriptor(text).name.startswith("encoder:hf-a--b--c:")
    with pytest.raises(
        InvalidInput, match=rf"hf-a--b--c is not {refused}: it is from {source}; .* --name NAME"
    ):
        descriptors.resolve_descriptor(refused)
    result = CliRunner().invoke(app, ["encoder", "get", refused])
    assert isinstance(result.exception, InvalidInput)
    assert encoders.get("hf-a--b--c").card.source == source


@pytest.mark.parametrize("text", ["torchvision:resnet18", "timm:vit.lvd142m", "hf:Org/Net.v2"])
def test_sources_of_cards(text):
    address = parse_hub_address(text)
    for rest in (
        "",
        " at 0123",
        ", from folder",
        ", ResNet18_Weights.IMAGENET1K_V1, resnet18.pth",
        ", x.pth",
    ):
        assert address.is_source(f"{text}{rest}")
    assert not address.is_source(f"{text}a at 0123")


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
