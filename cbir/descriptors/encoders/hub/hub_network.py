"""Pretrained networks as the hubs' libraries load them, and their files: in the hub's cache, or the user's folder."""

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import nn

from cbir.descriptors.encoders import HubAddress
from cbir.descriptors.encoders.encoder_files import EncoderInput
from cbir.errors import InvalidInput
from cbir.system.files import file_sha256

Fit = Literal["squash", "letterbox", "crop"]

# The interpolations of the card that come closest to those of Pillow
_INTERPOLATIONS: dict[str, Literal["area", "linear", "cubic"]] = {
    "nearest": "linear",
    "bilinear": "linear",
    "hamming": "linear",
    "bicubic": "cubic",
    "lanczos": "cubic",
    "box": "area",
}


@dataclass(frozen=True)
class HubText:
    """Text tower of an image-text model, in evaluation mode.

    network: from tokens (1, length) int64, and their mask if it is `masked`, to a vector (1, values). tokenizer: cuts
    and pads to `length`. tokenize: from texts to tokens (n, length), as the library does it.
    """

    network: nn.Module
    masked: bool
    tokenizer: Tokenizer
    tokenize: Callable[[list[str]], NDArray[np.int64]]
    length: int


@dataclass(frozen=True)
class HubNetwork:
    """A pretrained network without its classifier, in evaluation mode.

    network: from an image (1, channels, height, width) to a vector (1, values) or map (1, channels, rows, columns).
    input: preprocessing as the library gives it. source: hub, name and revision. weights: the file.
    load_text: of image-text models, returns the text tower; raises what the library raises.
    """

    network: nn.Module
    input: EncoderInput
    title: str
    source: str
    weights: Path
    licence: str = "unknown"
    description: str = ""
    load_text: Callable[[], HubText] | None = None


def make_input(
    size: tuple[int, int],
    fit: Fit,
    interpolation: str,
    mean: Sequence[float],
    deviation: Sequence[float],
    scale: float = 255.0,
) -> EncoderInput:
    """Return the input of a network of a hub.

    Parameters
    ----------
    size : tuple of int
        Height and width in pixels.
    fit : {"squash", "letterbox", "crop"}
        How an image gets this shape.
    interpolation : str
        Name of Pillow's resampling filter, in any case.
    mean, deviation : sequence of float
        A number for each channel.
    scale : float, default=255
        Value of a white pixel before `mean` is subtracted.

    Returns
    -------
    EncoderInput
        With grey images for a network with one channel.
    """
    return EncoderInput(
        height=size[0],
        width=size[1],
        fit=fit,
        interpolation=_INTERPOLATIONS.get(interpolation.lower(), "linear"),
        channels="grey" if len(mean) == 1 else "colour",
        scale=scale,
        mean=tuple(mean),
        deviation=tuple(deviation),
    )


CONFIG, OPEN_CLIP_CONFIG = "config.json", "open_clip_config.json"

# Configuration, and the files that can have its weights, in the order of preference
LAYOUTS = {
    CONFIG: ("model.safetensors", "pytorch_model.bin"),
    OPEN_CLIP_CONFIG: ("open_clip_model.safetensors", "open_clip_pytorch_model.bin"),
}
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt",
              "vocab.txt")  # fmt: skip
OTHERS = ("preprocessor_config.json", "processor_config.json", "README.md", *TOKENIZERS)
LARGEST_CONFIG = 1 << 24  # bytes


class NetworkFiles(NamedTuple):
    """One revision of a network; source: address and revision or folder, for cards."""

    folder: Path
    source: str
    config: str
    weights: Path
    licence: str

    def read_config(self) -> dict[str, Any]:
        """Return the configuration; raise InvalidInput if it is not JSON."""
        return read_json(self.folder / self.config)


def fetch_network_files(address: HubAddress, repository: str) -> NetworkFiles:
    """Fetch the files of a network that are missing in the cache; without a network use what the cache has.

    Raises InvalidInput, with the remedy, if there is no such network, or it cannot be fetched.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        info = HfApi().model_info(repository)
        selected = select_files({file.rfilename for file in info.siblings or ()}, str(address))
        folder = Path(snapshot_download(repository, allow_patterns=[*selected, *OTHERS]))
    except InvalidInput:
        raise
    except GatedRepoError as error:
        raise InvalidInput(
            f"{address}: accept its conditions on https://huggingface.co/{repository}, then log in: hf auth login"
        ) from error
    except RepositoryNotFoundError as error:
        raise InvalidInput(
            f"Hugging Face has no network {repository}, or a private one: hf auth login"
        ) from error
    except Exception as error:  # the exceptions of its HTTP client have no public base
        cached = _cached_folder(repository)
        if cached is None:
            needed = [CONFIG, *([] if address.hub == "timm" else OTHERS[:1])]
            raise InvalidInput(
                f"{address} cannot be fetched ({first_line(error)}); put {', '.join(needed)} and "
                f"model.safetensors of https://huggingface.co/{repository} into a folder for --from, or its "
                f"snapshot into {HF_HUB_CACHE}/models--{repository.replace('/', '--')}"
            ) from error
        folder = cached
    snapshot = open_network_files(address, folder, f"{address} at {folder.name}")
    digest = snapshot.weights.resolve().name  # the cache names large files by their SHA-256
    if re.fullmatch("[0-9a-f]{64}", digest) and file_sha256(snapshot.weights) != digest:
        raise InvalidInput(
            f"{snapshot.weights} is damaged: its SHA-256 is another; remove it, then try again"
        )
    return snapshot


def fetch_text_files(repository: str) -> Path:
    """Fetch the configuration and the tokenizer of a text model; without a network use what the cache has.

    Raises InvalidInput, with the remedy, if they cannot be fetched.
    """
    from huggingface_hub import snapshot_download

    files = [CONFIG, *TOKENIZERS]
    try:
        return Path(snapshot_download(repository, allow_patterns=files))
    except Exception as error:  # the exceptions of its HTTP client have no public base
        raise InvalidInput(
            f"{repository} cannot be fetched ({first_line(error)}); put {CONFIG} and tokenizer.json of "
            f"https://huggingface.co/{repository} beside the files of the network, into a folder for --from"
        ) from error


def open_network_files(address: HubAddress, folder: Path, source: str) -> NetworkFiles:
    """Open a folder with a configuration and weights.

    Parameters
    ----------
    address : HubAddress
        Network, for messages.
    folder : Path
        The folder.
    source : str
        Origin of the files, for the card.

    Returns
    -------
    NetworkFiles
        Its files.

    Raises
    ------
    InvalidInput
        If files are missing.
    """
    if not folder.is_dir():
        raise InvalidInput(f"there is no folder {folder}")
    config, weights = select_files({path.name for path in folder.iterdir()}, f"{address}: {folder}")
    return NetworkFiles(folder, source, config, folder / weights, _read_licence(folder / "README.md"))


def select_files(names: Collection[str], subject: str) -> tuple[str, str]:
    """Return the names of configuration and weights; raise InvalidInput about `subject` if there are none."""
    for config, candidates in LAYOUTS.items():
        for weights in candidates:
            if config in names and weights in names:
                return config, weights
    pairs = ", or ".join(f"{config} with {' or '.join(weights)}" for config, weights in LAYOUTS.items())
    raise InvalidInput(f"{subject} has not the files of a network: {pairs}")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; raise InvalidInput if it is something else."""
    try:
        if path.stat().st_size > LARGEST_CONFIG:
            raise ValueError
        fields = json.loads(path.read_bytes())
        if not isinstance(fields, dict):
            raise ValueError
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is not a JSON object") from error
    return fields


def first_line(error: Exception) -> str:
    """Return the first line of a library's message, at most 300 characters."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:300]


def _cached_folder(repository: str) -> Path | None:
    """Return the snapshot of the main branch in the cache; None without one that has a network."""
    from huggingface_hub import try_to_load_from_cache

    for config, candidates in LAYOUTS.items():
        path = try_to_load_from_cache(repository, config)
        if isinstance(path, str) and any((Path(path).parent / weights).is_file() for weights in candidates):
            return Path(path).parent
    return None


def _read_licence(path: Path) -> str:
    """Return the licence that a model card names, else "unknown"."""
    from huggingface_hub import ModelCard

    if not path.is_file() or path.stat().st_size > LARGEST_CONFIG:
        return "unknown"
    try:
        data = ModelCard.load(path, ignore_metadata_errors=True).data
    except Exception:  # of the YAML parser: the card is for people
        return "unknown"
    named = data.get("license_name") if data.license in (None, "other") else data.license
    return str(named or data.license or "unknown")[:200]
