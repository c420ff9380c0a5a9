"""Pretrained networks as the hubs' libraries load them."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import nn

from cbir.descriptors.encoders.encoder_card import EncoderInput

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


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
