"""Vision models of transformers, and the towers of its image-text models: CLIP, SigLIP and others."""

from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Resampling
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

from cbir.descriptors.encoders import HubAddress
from cbir.descriptors.encoders.encoder_files import EncoderInput
from cbir.descriptors.encoders.hub.export_network import set_length
from cbir.descriptors.encoders.hub.hub_network import Fit, HubNetwork, HubText, NetworkFiles, make_input
from cbir.errors import InvalidInput

TOKENIZER = "tokenizer.json"
LONGEST = 512  # tokens; some models have no limit


class TransformersText(nn.Module):
    """The vector of a text, which is compared with those of images."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        arguments = {} if mask is None else {"attention_mask": mask}
        features = cast(Any, self.model).get_text_features(input_ids=tokens, **arguments)
        return cast(Tensor, getattr(features, "pooler_output", features))


def load_transformers_text(model: nn.Module, folder: Path) -> HubText:
    """Load the tokenizer of an image-text model from the folder with its files.

    Raises InvalidInput without one that the library tokenizers can read.
    """
    if not (folder / TOKENIZER).is_file():
        raise InvalidInput(f"{folder} has no {TOKENIZER}")
    library = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    if library.is_fast:
        tokenizer = Tokenizer.from_str(library.backend_tokenizer.to_str())
    longest = getattr(cast(Any, model).config.text_config, "max_position_embeddings", LONGEST)
    length = min(int(longest), int(library.model_max_length), LONGEST)
    if library.pad_token_id is None:
        raise InvalidInput(f"{folder}: its tokenizer has no token for padding")
    set_length(tokenizer, length, int(library.pad_token_id))

    def tokenize(texts: list[str]) -> NDArray[np.int64]:
        options = {"padding": "max_length", "truncation": True, "max_length": length}
        return np.array(library(texts, **options)["input_ids"], np.int64)

    masked = "attention_mask" in library.model_input_names
    return HubText(TransformersText(model).eval(), masked, tokenizer, tokenize, length)


CLASS_TOKENS = ("cls_token", "class_embedding")  # names of their parameters
PREPROCESSING = ("preprocessor_config.json", "processor_config.json")


class TransformersFeatures(nn.Module):
    """Last map of a network; else the vector that texts are compared with, its pooled output, or its class token."""

    def __init__(self, model: nn.Module, with_pooler: bool) -> None:
        super().__init__()
        self.model, self._with_pooler = model, with_pooler
        names = {part for name, _ in model.named_parameters() for part in name.split(".")}
        self._with_class_token = bool(names & set(CLASS_TOKENS))

    def forward(self, images: Tensor) -> Tensor:
        if hasattr(self.model, "get_image_features"):
            features = cast(Any, self.model).get_image_features(pixel_values=images)
            return cast(Tensor, getattr(features, "pooler_output", features))
        outputs = self.model(pixel_values=images)
        last = outputs.last_hidden_state
        if last.ndim == 4:
            return cast(Tensor, last)
        pooled = getattr(outputs, "pooler_output", None) if self._with_pooler else None
        if pooled is not None:
            return cast(Tensor, pooled.flatten(1))
        return cast(Tensor, last[:, 0] if self._with_class_token else last.mean(1))


def load_transformers(address: HubAddress, snapshot: NetworkFiles) -> HubNetwork:
    """Load a vision model with its weights and preprocessing; no code of the repository is run."""
    if not any((snapshot.folder / name).is_file() for name in PREPROCESSING):
        raise InvalidInput(f"{snapshot.folder} has no {PREPROCESSING[0]}")
    local = {"local_files_only": True, "trust_remote_code": False}
    model, report = AutoModel.from_pretrained(
        snapshot.folder,
        dtype=torch.float32,
        attn_implementation="eager",
        use_safetensors=snapshot.weights.suffix == ".safetensors",
        output_loading_info=True,
        **local,
    )
    missing = sorted(report["missing_keys"])
    lost = [name for name in missing if "pooler" not in name.split(".")]
    if lost:
        raise InvalidInput(f"{snapshot.weights} has no weights {lost[0]!r}: it is of another network")
    processor = AutoImageProcessor.from_pretrained(snapshot.folder, **local)
    return HubNetwork(
        network=TransformersFeatures(model, with_pooler=not missing).eval(),
        input=_input(processor, snapshot),
        title=address.name,
        source=snapshot.source,
        weights=snapshot.weights,
        licence=snapshot.licence,
        load_text=partial(load_transformers_text, model, snapshot.folder) if _has_text(model) else None,
    )


def _has_text(model: Any) -> bool:
    return hasattr(model, "get_text_features") and hasattr(model, "get_image_features")


def _input(processor: Any, snapshot: NetworkFiles) -> EncoderInput:
    """Translate an image processor's preprocessing."""
    fields = processor.to_dict()
    size, fit = _size(fields, snapshot)
    mean, deviation = _numbers(0.0), _numbers(1.0)
    if fields.get("do_normalize"):
        mean, deviation = _numbers(fields["image_mean"]), _numbers(fields["image_std"])
    scale = 1 / float(fields.get("rescale_factor") or 1 / 255) if fields.get("do_rescale", True) else 1.0
    resample = Resampling(int(fields.get("resample") or Resampling.BILINEAR)).name
    return make_input(size, fit, resample, mean, deviation, round(scale, 6))


def _size(fields: dict[str, Any], snapshot: NetworkFiles) -> tuple[tuple[int, int], Fit]:
    size = dict(fields.get("size") or {})
    if fields.get("do_center_crop") and fields.get("crop_size"):
        crop = dict(fields["crop_size"])
        return (int(crop["height"]), int(crop["width"])), "squash" if size.get("height") else "crop"
    if size.get("height") and size.get("width"):
        return (int(size["height"]), int(size["width"])), "squash"
    if size.get("shortest_edge"):
        return (int(size["shortest_edge"]),) * 2, "crop"
    if size.get("longest_edge"):
        return (int(size["longest_edge"]),) * 2, "letterbox"
    raise InvalidInput(f"{snapshot.folder}: its image processor gives no size of the input")


def _numbers(value: Any) -> tuple[float, ...]:
    return (float(value),) * 3 if isinstance(value, int | float) else tuple(float(number) for number in value)
