"""Networks of timm and open_clip as encoders, made in the test by these libraries."""

import json

import numpy as np
import open_clip
import pytest
import timm
import timm.data
import torch
from PIL import Image as PillowImage
from safetensors.torch import save_file
from timm.models import save_for_hf

from cbir.descriptors import encoders
from cbir.descriptors.encoders import built_in
from cbir.errors import InvalidInput
from cbir.images import Image
from tests.cbir.descriptors.pictures import draw

PIXELS = draw("smooth", (180, 180, 3), 3)
TOWER = {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8}
TEXT = {"context_length": 8, "vocab_size": 50, "width": 16, "heads": 2, "layers": 1}


def save(name, folder):
    """Write a network with random weights as the hub has it; return the network."""
    torch.manual_seed(0)
    model = timm.create_model(name).eval()
    save_for_hf(model, folder, safe_serialization=True)
    return model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "dimensions"), [("test_vit", (), 64), ("test_resnet", ("--grid", 1), 96)]
)
def test_values_are_those_of_the_library(name, options, dimensions, get, tmp_path):
    model = save(name, tmp_path)
    card = get(f"timm:{name}", "--from", tmp_path, *options)
    assert (card["name"], card["dimensions"]) == (f"timm-{name}", dimensions)
    config = timm.data.resolve_model_data_config(model)
    assert card["input"]["height"] == config["input_size"][1]
    assert card["input"]["mean"] == list(config["mean"])
    encoder = encoders.get(f"timm:{name}")
    values = encoder.describe_batch([encoder.prepare(Image(PIXELS))])[0]
    pixels = timm.data.create_transform(**{**config, "crop_pct": 1.0})(PillowImage.fromarray(PIXELS))[None]
    with torch.no_grad():
        features = model.forward_features(pixels)
        expected = features.mean((2, 3)) if options else model.forward_head(features, pre_logits=True)
    assert values == pytest.approx(expected[0].numpy(), rel=1e-3, abs=1e-3)


@pytest.mark.slow
def test_repository_of_timm_on_hugging_face(get, tmp_path):
    save("test_vit", tmp_path)
    assert get("hf:org/own", "--from", tmp_path)["dimensions"] == 64


def test_other_networks_are_refused(get, tmp_path):
    save("test_vit", tmp_path)
    with pytest.raises(InvalidInput, match="has the network test_vit, not resnet10t"):
        get("timm:resnet10t", "--from", tmp_path)
    state = timm.create_model("test_vit").state_dict()
    state.pop("blocks.0.norm1.weight")
    save_file(state, tmp_path / "model.safetensors")
    with pytest.raises(InvalidInput, match=r"timm:test_vit cannot be loaded: [^\n]*$"):
        get("timm:test_vit", "--from", tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "vit"}')
    with pytest.raises(InvalidInput, match=r"config.json is not of timm"):
        get("timm:test_vit", "--from", tmp_path)


class Hostile:
    """Pickled as an order to open a file for writing."""

    def __init__(self, target):
        self.target = str(target)

    def __reduce__(self):
        return (open, (self.target, "w"))


def check_pickle_is_refused(address, get, folder, weights):
    """Assert that this project refuses a hostile pickle before the library sees it: the message is ours."""
    target = folder / "ran"
    for content in ({"weight": Hostile(target)}, Hostile(target)):
        torch.save(content, weights)
        with pytest.raises(InvalidInput, match=rf"{weights.name} has no weights: neither safetensors nor"):
            get(address, "--from", folder)
    assert not target.exists()
    assert encoders.names() == tuple(built_in.CARDS)


@pytest.mark.parametrize("address", ["timm:test_resnet", "hf:a/b"])
def test_pickles_are_refused(address, get, tmp_path):
    save("test_resnet", tmp_path)
    (tmp_path / "model.safetensors").unlink()
    check_pickle_is_refused(address, get, tmp_path, tmp_path / "pytorch_model.bin")


@pytest.mark.slow
def test_weights_that_a_configuration_names_elsewhere_are_not_read(get, tmp_path):
    save("test_vit", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    torch.save({"weight": Hostile(tmp_path / "ran")}, tmp_path / "other.bin")
    config["pretrained_cfg"] |= {"file": str(tmp_path / "other.bin"), "url": "http://127.0.0.1:9/x.bin"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").unlink()
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InvalidInput, match=r"pytorch_model.bin has no weights$"):
        get("timm:test_vit", "--from", tmp_path)
    torch.save(timm.create_model("test_vit").state_dict(), tmp_path / "pytorch_model.bin")
    assert get("timm:test_vit", "--from", tmp_path)["dimensions"] == 64
    assert not (tmp_path / "ran").exists()


def test_pickled_towers_are_refused(get, tmp_path):
    save_tower(tmp_path, TOWER, "bin", {})
    check_pickle_is_refused("hf:org/clip", get, tmp_path, tmp_path / "open_clip_pytorch_model.bin")


def test_unknown_names_are_refused(get):
    with pytest.raises(InvalidInput, match="timm has no network 'resnet18x'; it has resnet"):
        get("timm:resnet18x")
    with pytest.raises(
        InvalidInput, match=r"timm has no weights 'resnet18.none' on Hugging Face; it has resnet18\."
    ):
        get("timm:resnet18.none")


def save_tower(folder, vision, suffix, preprocess):
    """Write an image-text model of open_clip with random weights as the hub has it; return the model."""
    torch.manual_seed(0)
    config = {"embed_dim": 24, "vision_cfg": vision, "text_cfg": TEXT}
    model = open_clip.CLIP(**config).eval()
    (folder / "open_clip_config.json").write_text(
        json.dumps({"model_cfg": config, "preprocess_cfg": preprocess})
    )
    if suffix == "bin":
        torch.save(model.state_dict(), folder / "open_clip_pytorch_model.bin")
    else:
        save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    return model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("vision", "suffix"),
    [
        (TOWER, "safetensors"),
        ({"timm_model_name": "test_vit", "timm_pool": "", "timm_proj": "linear", "image_size": 160}, "bin"),
    ],
)
def test_image_tower_of_open_clip(vision, suffix, get, tmp_path):
    preprocess = {"mean": [0.4, 0.5, 0.6], "std": [0.2, 0.3, 0.4], "resize_mode": "squash"}
    model = save_tower(tmp_path, vision, suffix, preprocess)
    card = get("hf:org/clip", "--from", tmp_path)
    assert (card["dimensions"], card["input"]["fit"]) == (24, "squash")
    assert card["input"]["width"] == vision["image_size"]
    encoder = encoders.get("hf:org/clip")
    pixels = encoder.prepare(Image(PIXELS))
    normal = ((pixels / 255 - preprocess["mean"]) / preprocess["std"]).transpose(2, 0, 1)[None]
    with torch.no_grad():
        expected = model.encode_image(torch.from_numpy(normal.astype(np.float32)))[0].numpy()
    assert encoder.describe_batch([pixels])[0] == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_incomplete_towers_are_refused(get, tmp_path):
    save_tower(tmp_path, TOWER, "safetensors", {})
    save_file({"visual.proj": torch.zeros(1)}, tmp_path / "open_clip_model.safetensors")
    with pytest.raises(InvalidInput, match=r"open_clip_model.safetensors has no weights 'class_embedding'"):
        get("hf:org/clip", "--from", tmp_path)
    (tmp_path / "open_clip_config.json").write_text("{}")
    with pytest.raises(InvalidInput, match=r"open_clip_config.json has no model_cfg"):
        get("hf:org/clip", "--from", tmp_path)
