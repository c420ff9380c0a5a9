"""Vision models of transformers as encoders, made in the test by transformers itself."""

import json

import numpy as np
import pytest
import torch
import transformers
from PIL import Image as PillowImage

from cbir.descriptors import encoders
from cbir.errors import InvalidInput
from cbir.images import Image
from tests.cbir.descriptors.pictures import draw

SIDE = 32
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
         "image_size": SIDE, "patch_size": 8}  # fmt: skip
TEXT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
        "vocab_size": 50, "max_position_embeddings": 8}  # fmt: skip
PIXELS = draw("smooth", (48, 72, 3), 3)
SQUASH = {"size": {"height": SIDE, "width": SIDE}, "resample": 2}
CROP = {"size": {"shortest_edge": SIDE}, "crop_size": {"height": SIDE, "width": SIDE}, "do_center_crop": True,
        "do_resize": True, "resample": 3}  # fmt: skip


def clip_config():
    return transformers.CLIPConfig(vision_config=SMALL, text_config=TEXT, projection_dim=24)


def siglip_config():
    return transformers.SiglipConfig(vision_config=SMALL, text_config=TEXT)


MODELS = {
    "vit": (lambda: transformers.ViTConfig(**SMALL), SQUASH, lambda model, x: model(x).pooler_output, 32),
    "dinov2": (lambda: transformers.Dinov2Config(**SMALL), CROP,
               lambda model, x: model(x).last_hidden_state[:, 0], 32),
    "dinov3": (lambda: transformers.DINOv3ViTConfig(**SMALL), SQUASH,
               lambda model, x: model(x).last_hidden_state[:, 0], 32),
    "siglip": (siglip_config, SQUASH, lambda model, x: model.vision_model(x).pooler_output, 32),
    "clip": (clip_config, CROP, lambda model, x: model.visual_projection(model.vision_model(x).pooler_output), 24),
    "resnet": (lambda: transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1],
                                                 layer_type="basic"),
               SQUASH, lambda model, x: model(x).last_hidden_state, 16 * 9),
}  # fmt: skip


def save(folder, config, preprocessing, licence="mit"):
    """Write a model with random weights and its processor as the hub has them; return the model."""
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config).eval()
    model.save_pretrained(folder)
    fields = {"image_processor_type": "ViTImageProcessor", "do_normalize": True, "do_rescale": True,
              "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4], **preprocessing}  # fmt: skip
    if "crop_size" in preprocessing:
        fields["image_processor_type"] = "CLIPImageProcessor"
    (folder / "preprocessor_config.json").write_text(json.dumps(fields))
    (folder / "README.md").write_text(f"---\nlicense: {licence}\n---\nA model.\n")
    return model


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_values_are_those_of_the_library(kind, get, tmp_path):
    config, preprocessing, describe, dimensions = MODELS[kind]
    model = save(tmp_path / "model", config(), preprocessing)
    card = get(f"hf:Org/{kind}", "--from", tmp_path / "model")
    assert (card["name"], card["dimensions"], card["licence"]) == (f"hf-org--{kind}", dimensions, "mit")
    encoder = encoders.get(f"hf:Org/{kind}")
    values = encoder.describe_batch([encoder.prepare(Image(PIXELS))])[0]
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "model")
    pixels = processor(PillowImage.fromarray(PIXELS), return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        expected = describe(model, pixels).numpy()
    if expected.ndim == 4:  # 4 x 4 places, in overlapping windows of 2 x 2
        starts = [(a, b) for a in (0, 1, 2) for b in (0, 1, 2)]
        expected = np.concatenate([expected[0, :, a : a + 2, b : b + 2].mean(axis=(1, 2)) for a, b in starts])
    assert values == pytest.approx(
        expected.ravel(), abs=0.02 * float(np.abs(expected).max())
    )  # other resampling


@pytest.mark.slow
def test_network_without_a_trained_pooler_gives_its_class_token(get, tmp_path):
    folder = tmp_path / "model"
    save(folder, transformers.ViTConfig(**SMALL), SQUASH)
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**SMALL)).eval()
    model.save_pretrained(folder)
    assert (
        get("hf:a/classifier", "--from", folder, "--name", "own", "--fit", "crop")["input"]["fit"] == "crop"
    )
    encoder = encoders.get("own")
    pixels = encoder.prepare(Image(PIXELS[:SIDE, :SIDE]))
    normal = (pixels / 255 - (0.4, 0.5, 0.6)) / (0.2, 0.3, 0.4)
    with torch.no_grad():
        outputs = model.vit(torch.from_numpy(normal.transpose(2, 0, 1)[None].astype(np.float32)))
    expected = outputs.last_hidden_state[0, 0].numpy()
    assert encoder.describe_batch([pixels])[0] == pytest.approx(expected, rel=1e-3, abs=1e-4)


@pytest.mark.slow
def test_state_dict_of_torch_is_read(get, tmp_path):
    folder = tmp_path / "model"
    model = save(folder, transformers.Dinov2Config(**SMALL), SQUASH)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    assert get("hf:a/b", "--from", folder)["dimensions"] == 32


def test_pickles_are_refused(get, tmp_path):
    folder, target = tmp_path / "model", tmp_path / "ran"
    save(folder, transformers.Dinov2Config(**SMALL), SQUASH)
    (folder / "model.safetensors").unlink()

    class Hostile:
        def __reduce__(self):
            return (open, (str(target), "w"))

    torch.save({"weight": Hostile()}, folder / "pytorch_model.bin")
    with pytest.raises(InvalidInput, match=r"^hf:a/b cannot be loaded: [^\n]*$"):
        get("hf:a/b", "--from", folder)
    assert not target.exists()
    assert "hf-a--b" not in encoders.names()


def test_code_of_a_repository_is_not_run(get, tmp_path):
    folder = tmp_path / "model"
    save(folder, transformers.Dinov2Config(**SMALL), SQUASH)
    config = json.loads((folder / "config.json").read_text())
    auto_map = {"AutoConfig": "code.Config", "AutoModel": "code.Model"}
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "other", "auto_map": auto_map}))
    (folder / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(InvalidInput, match="hf:a/b cannot be loaded"):
        get("hf:a/b", "--from", folder)
    assert not (tmp_path / "ran").exists()


def test_missing_weights_are_refused(get, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "model"
    save(folder, transformers.Dinov2Config(**SMALL), SQUASH)
    state = load_file(folder / "model.safetensors")
    state.pop("encoder.layer.0.norm1.weight")
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(
        InvalidInput, match=r"model.safetensors has no weights 'encoder.layer.0.norm1.weight'"
    ):
        get("hf:a/b", "--from", folder)
    (folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(InvalidInput, match="hf:a/b cannot be loaded"):
        get("hf:a/b", "--from", folder)


def test_missing_files_are_named(get, tmp_path):
    folder = tmp_path / "model"
    with pytest.raises(InvalidInput, match=f"there is no folder {folder}"):
        get("hf:a/b", "--from", folder)
    save(folder, transformers.Dinov2Config(**SMALL), SQUASH)
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(InvalidInput, match=f"{folder} has no preprocessor_config.json"):
        get("hf:a/b", "--from", folder)
    (folder / "config.json").write_text("[]")
    with pytest.raises(InvalidInput, match=r"config.json is not a JSON object"):
        get("hf:a/b", "--from", folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InvalidInput, match=r"config.json with model.safetensors or pytorch_model.bin"):
        get("hf:a/b", "--from", folder)


def test_networks_that_cannot_be_encoders_are_refused(get, tmp_path):
    folder = tmp_path / "model"
    save(folder, transformers.Dinov2Config(**SMALL), SQUASH)
    with pytest.raises(InvalidInput, match="the network gives a vector, no map: --grid does not apply"):
        get("hf:a/b", "--from", folder, "--grid", 2)
    save(folder, transformers.ViTConfig(**SMALL), {"size": {"height": 48, "width": 48}})
    with pytest.raises(
        InvalidInput, match=r"^hf:a/b cannot be an encoder: Input image size \(48\*48\)[^\n]*$"
    ):
        get("hf:a/b", "--from", folder)
    (folder / "preprocessor_config.json").write_text(
        '{"image_processor_type": "ViTImageProcessor", "size": {}}'
    )
    with pytest.raises(InvalidInput, match=r"^hf:a/b cannot be loaded: [^\n]*$|gives no size of the input"):
        get("hf:a/b", "--from", folder)
    assert "hf-a--b" not in encoders.names()
