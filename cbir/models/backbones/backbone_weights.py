"""Weights from this machine: safetensors, what torch saved, or the folder of an embedding; never code."""

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, load_file
from torch import Tensor, nn

from cbir.errors import InvalidInput, NotFound
from cbir.models import embedding_card
from cbir.models.model_card import read_verified

FOLLOWS = ("module.", "model.", "backbone.", "network.")  # what trainers put before the names
INSIDE = "network."  # before those of the network alone, in an embedding of ours


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """The state dict in a file, or that of the embedding that `cbir train embedding` wrote into a folder.

    Raises NotFound for a missing file, InvalidInput for one that is something else.
    """
    content = None
    if path.is_dir():
        content = read_verified(
            path / embedding_card.WEIGHTS, embedding_card.read_embedding_card(path)["sha256"]
        )
    elif not path.is_file():
        raise NotFound(f"there is no file of weights {path}")
    try:
        if content is not None:
            return _plain(load(content))
        if path.suffix == ".safetensors":
            return _plain(load_file(path))
        found = torch.load(path, map_location="cpu", weights_only=True)
    except SafetensorError as error:
        raise InvalidInput(f"{path} is no safetensors file") from error
    except Exception as error:  # torch raises whatever its readers of zip and pickle do
        raise InvalidInput(
            f"{path} is no file of weights: safetensors, or a state dict that torch saved"
        ) from error
    for inside in ("state_dict", "model"):
        if isinstance(found, dict) and isinstance(found.get(inside), dict):
            found = found[inside]
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise InvalidInput(f"{path} holds no state dict")
    return _plain(found)


def load_weights_into(network: nn.Module, held: dict[str, Tensor], where: str) -> None:
    """Put weights into `network`; a classifier that is left over is ignored. where: for the message.

    Raises InvalidInput where they are of another network.
    """
    wanted = network.state_dict()
    missing = [name for name in wanted if name not in held and not name.endswith("num_batches_tracked")]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InvalidInput(f"{where} has no weights {missing[0]!r}{more}: it is of another network")
    for name, value in wanted.items():
        if name in held and held[name].shape != value.shape:
            raise InvalidInput(
                f"{where}: {name} has the shape {tuple(held[name].shape)}, not {tuple(value.shape)}"
            )
    network.load_state_dict({name: held[name] for name in wanted if name in held}, strict=False)


def _plain(held: dict[str, Tensor]) -> dict[str, Tensor]:
    """Names without what trainers put before them; of an embedding, what is before the pooling."""
    for before in FOLLOWS:
        if held and all(name.startswith(before) for name in held):
            held = {name.removeprefix(before): value for name, value in held.items()}
    inside = {name.removeprefix(INSIDE): value for name, value in held.items() if name.startswith(INSIDE)}
    return _plain(inside) if inside else held
