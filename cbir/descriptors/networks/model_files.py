"""Weights of networks on disk, by torch: safetensors with a JSON card, and published ones. Nothing is unpickled."""

import hashlib
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load, load_file
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as serialise_tensors
from torch import Tensor, nn

from cbir.descriptors.networks.model_card import (
    EMBEDDING_WEIGHTS,
    LARGEST_FILE,
    read_embedding_card,
    read_verified,
)
from cbir.errors import InvalidInput, NotFound
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


PREFIXES = ("module.", "model.", "backbone.", "network.")  # that trainers add to names
NETWORK = "network."  # prefix of the layers before the pooling in our embeddings


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Read the state dict of the file `path`, or of the embedding that `cbir train embedding` wrote to this folder.

    Prefixes that trainers add to the names are removed. Raises NotFound if it is missing, InvalidInput if it is
    something else.
    """
    return _strip_prefixes(read_named_weights(path))


def read_named_weights(path: Path) -> dict[str, Tensor]:
    """Read a state dict as `read_state_dict` does, by the names that the file gives."""
    content = None
    if path.is_dir():
        content = read_verified(path / EMBEDDING_WEIGHTS, read_embedding_card(path)["sha256"])
    elif not path.is_file():
        raise NotFound(f"there are no weights {path}")
    try:
        if content is not None:
            return load(content)
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except SafetensorError as error:
        raise InvalidInput(f"{path} is not a safetensors file") from error
    except Exception as error:  # torch passes on the errors of its zip and pickle readers
        raise InvalidInput(
            f"{path} has no weights: neither safetensors nor a state dict saved by torch"
        ) from error
    for key in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise InvalidInput(f"{path} has no state dict")
    return state


def parse_packaged_weights(path: Path, sha256: str) -> dict[str, Tensor]:
    """Read the state dict `path` of a package; raise InvalidInput if its SHA-256 is another."""
    content = read_verified(path, sha256)
    state: dict[str, Tensor] = torch.load(BytesIO(content), map_location="cpu", weights_only=True)
    return state


def load_weights_into(network: nn.Module, state: dict[str, Tensor], source: str) -> None:
    """Load weights into a network; a classifier that is left over is ignored.

    Parameters
    ----------
    network : nn.Module
        The network.
    state : dict of Tensor
        Weights by name.
    source : str
        Origin of the weights, for messages.

    Raises
    ------
    InvalidInput
        If the weights are of another network.
    """
    expected = network.state_dict()
    missing = [name for name in expected if name not in state and not name.endswith("num_batches_tracked")]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InvalidInput(f"{source} has no weights {missing[0]!r}{more}: it is of another network")
    for name, value in expected.items():
        if name in state and state[name].shape != value.shape:
            shape = tuple(state[name].shape)
            raise InvalidInput(f"{source}: {name} has the shape {shape}, not {tuple(value.shape)}")
    network.load_state_dict({name: state[name] for name in expected if name in state}, strict=False)


def _strip_prefixes(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Remove the prefixes of trainers; of an embedding, select the layers before the pooling."""
    for prefix in PREFIXES:
        if state and all(name.startswith(prefix) for name in state):
            state = {name.removeprefix(prefix): value for name, value in state.items()}
    network = {name.removeprefix(NETWORK): value for name, value in state.items() if name.startswith(NETWORK)}
    return _strip_prefixes(network) if network else state
