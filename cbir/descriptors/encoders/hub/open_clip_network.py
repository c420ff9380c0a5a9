"""Image and text towers of open_clip, for instance BiomedCLIP's."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from open_clip.model import (
    _build_text_tower,
    _build_vision_tower,  # a whole model would fetch its text tower
)
from open_clip.tokenizer import HFTokenizer, SimpleTokenizer
from open_clip.transform import PreprocessCfg
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.normalizers import Normalizer
from torch import Tensor

from cbir.descriptors.encoders import HubAddress
from cbir.descriptors.encoders.hub.export_network import normalise_first, set_length, white_space
from cbir.descriptors.encoders.hub.hub_network import (
    CONFIG,
    Fit,
    HubNetwork,
    HubText,
    NetworkFiles,
    fetch_text_files,
    make_input,
)
from cbir.descriptors.encoders.hub.transformers_network import TOKENIZER
from cbir.descriptors.networks.model_files import load_weights_into, read_state_dict
from cbir.errors import InvalidInput

PREFIX = "text."  # of the weights of a tower of its own class
NOT_TEXT = ("visual.", "logit_")
CONTEXT_LENGTH = 77  # where the configuration gives none
PUNCTUATION = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""


def load_open_clip_text(
    config: dict[str, Any], state: dict[str, Tensor], snapshot: NetworkFiles, offline: bool
) -> HubText:
    """Load a text tower.

    Parameters
    ----------
    config : dict
        The model's `model_cfg`.
    state : dict of Tensor
        Weights of the whole model.
    snapshot : NetworkFiles
        Files of the model.
    offline : bool
        Whether files of the repository that the configuration names are to lie beside those of the model.

    Raises
    ------
    InvalidInput
        If files are missing, or the weights are of another network.
    """
    text = {**config.get("text_cfg", {}), "output_tokens": False, "hf_model_pretrained": False}
    folder = snapshot.folder
    if text.get("hf_model_name"):
        folder = _text_folder(str(text["hf_model_name"]), (CONFIG,), folder, offline)
        text["hf_model_name"] = str(folder)
    tower = _build_text_tower(int(config["embed_dim"]), text, bool(config.get("quick_gelu")))
    own = {name.removeprefix(PREFIX): value for name, value in state.items() if name.startswith(PREFIX)}
    own = own or {name: value for name, value in state.items() if not name.startswith(NOT_TEXT)}
    load_weights_into(tower, own, snapshot.weights.name)
    length, options = int(text.get("context_length") or CONTEXT_LENGTH), text.get("tokenizer_kwargs") or {}
    library: Any
    if text.get("hf_tokenizer_name"):
        folder = _text_folder(str(text["hf_tokenizer_name"]), (TOKENIZER,), snapshot.folder, offline)
        library = HFTokenizer(
            str(folder), context_length=length, local_files_only=True, trust_remote_code=False, **options
        )
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        if library.tokenizer.is_fast:
            tokenizer = Tokenizer.from_str(library.tokenizer.backend_tokenizer.to_str())
        normalise_first(tokenizer, cleaning(options.get("clean", "whitespace")))
        padding = library.tokenizer.pad_token_id
    else:
        library = SimpleTokenizer(context_length=length, **options)
        tokenizer, padding = byte_pairs(library), 0
        normalise_first(tokenizer, [normalizers.NFC(), *cleaning(options.get("clean", "lower"))])
    set_length(tokenizer, length, int(padding))

    def tokenize(texts: list[str]) -> NDArray[np.int64]:
        return np.asarray(library(texts).numpy(), np.int64)

    return HubText(tower.float().eval(), False, tokenizer, tokenize, length)


def _text_folder(repository: str, files: tuple[str, ...], folder: Path, offline: bool) -> Path:
    """Return the folder with files of a text model: the image-text model's own, else the repository's."""
    missing = [name for name in files if not (folder / name).is_file()]
    if not missing:
        return folder
    if offline:
        raise InvalidInput(f"put {', '.join(missing)} of https://huggingface.co/{repository} into {folder}")
    return fetch_text_files(repository)


def cleaning(name: str) -> list[Normalizer]:
    """Return the steps of open_clip's cleaning functions."""
    if name == "canonicalize":
        marks = [normalizers.Replace("_", " "), normalizers.Replace(Regex(PUNCTUATION), "")]
        return [*marks, normalizers.Lowercase(), *white_space()]
    return [*white_space(), *([normalizers.Lowercase()] if name == "lower" else [])]


def byte_pairs(library: SimpleTokenizer) -> Tokenizer:
    """Return the byte-pair tokenizer that equals open_clip's own one."""
    merges = sorted(library.bpe_ranks, key=library.bpe_ranks.get)
    tokenizer = Tokenizer(models.BPE(vocab=library.encoder, merges=merges, end_of_word_suffix="</w>"))
    words = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(words), "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    start, end = library.all_special_ids[:2]
    names = [(library.decoder[number], number) for number in (start, end)]
    single = f"{names[0][0]} $A {names[1][0]}"
    tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=names)
    return tokenizer


TOWER = "visual."  # prefix of its weights
_FITS: dict[str, Fit] = {"shortest": "crop", "squash": "squash", "longest": "letterbox"}  # by resize mode


def load_open_clip(address: HubAddress, snapshot: NetworkFiles, offline: bool) -> HubNetwork:
    """Load an image tower up to the vector that is compared with texts.

    Parameters
    ----------
    address : HubAddress
        Network.
    snapshot : NetworkFiles
        Its files.
    offline : bool
        Whether the text tower may not be fetched from other repositories.
    """
    config = snapshot.read_config()
    model, vision = _object(config, "model_cfg", snapshot), {}
    vision = {
        **_object(model, "vision_cfg", snapshot),
        "timm_model_pretrained": False,
        "output_tokens": False,
    }
    tower = _build_vision_tower(int(model["embed_dim"]), vision, bool(model.get("quick_gelu")))
    state = read_state_dict(snapshot.weights)
    own = {name.removeprefix(TOWER): value for name, value in state.items() if name.startswith(TOWER)}
    load_weights_into(tower, own, snapshot.weights.name)
    size = vision.get("image_size", 224)
    given = {name: value for name, value in config.get("preprocess_cfg", {}).items() if value is not None}
    preprocessing = PreprocessCfg(**given)
    return HubNetwork(
        network=tower.float().eval(),
        input=make_input(
            (size, size) if isinstance(size, int) else (size[0], size[1]),
            _FITS[preprocessing.resize_mode],
            preprocessing.interpolation,
            preprocessing.mean,
            preprocessing.std,
        ),
        title=address.name,
        source=snapshot.source,
        weights=snapshot.weights,
        licence=snapshot.licence,
        load_text=partial(load_open_clip_text, model, state, snapshot, offline)
        if model.get("text_cfg")
        else None,
    )


def _object(fields: dict[str, Any], name: str, snapshot: NetworkFiles) -> dict[str, Any]:
    value = fields.get(name)
    if not isinstance(value, dict):
        raise InvalidInput(f"{snapshot.folder / snapshot.config} has no {name}")
    return value
