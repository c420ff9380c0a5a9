"""Trained networks on disk: weights as safetensors, and a JSON card with their hash. Nothing is unpickled."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as serialise_tensors
from torch import nn

from cbir.descriptors.networks.model_card import LARGEST_FILE, read_verified
from cbir.errors import InvalidInput
from cbir.system.files import write_bytes

M = TypeVar("M", bound=nn.Module)


def save_model(network: nn.Module, weights: Path, card: Path, facts: dict[str, Any]) -> None:
    """Write the weights of a network, then its card.

    Parameters
    ----------
    network : nn.Module
        On any device.
    weights, card : Path
        Files to write, in a folder that exists; each is replaced atomically.
    facts : dict
        Content of the card; the hash of the weights is added as "sha256".
    """
    state = network.state_dict().items()
    content = serialise_tensors({name: value.cpu().contiguous() for name, value in state})
    text = json.dumps({**facts, "sha256": hashlib.sha256(content).hexdigest()}, indent=2) + "\n"
    write_bytes(weights, content)
    write_bytes(card, text.encode())


def load_weights(weights: Path, sha256: str, build: Callable[[], M], largest: int = LARGEST_FILE) -> M:
    """Build a network and load weights that match the hash of their card.

    Parameters
    ----------
    weights : Path
        Safetensors file.
    sha256 : str
        Hash from the card, hexadecimal.
    build : callable
        Makes the network from the options of the card.
    largest : int
        Size in bytes above which the file is refused.

    Returns
    -------
    nn.Module
        What `build` returned, with the weights.

    Raises
    ------
    NotFound
        If there is no such file.
    InvalidInput
        If the file is not the one of the card, or does not fit the network.
    """
    content = read_verified(weights, sha256, largest)
    try:
        network = build()
        network.load_state_dict(parse_tensors(content))
    except (RuntimeError, TypeError, ValueError, SafetensorError) as error:
        raise InvalidInput(f"{weights} does not fit the options of its card") from error
    return network
