"""Bayesian rankers on disk: a folder with weights as safetensors, and a card."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as read_tensors
from safetensors.torch import save as write_tensors

from cbir.active.network import BayesianNetwork
from cbir.atomic import write_bytes
from cbir.errors import InvalidInput, NotFound
from cbir.models.model_card import read_verified

if TYPE_CHECKING:
    from cbir.active.bayesian import BayesianRanker

WEIGHTS, CARD = "severity.safetensors", "severity.json"


def save(ranker: "BayesianRanker", folder: Path, facts: dict[str, Any]) -> None:
    """Write weights and card (settings, hash of the weights, and `facts`) of a fitted ranker into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    content = write_tensors(
        {name: value.cpu().contiguous() for name, value in ranker.network_.state_dict().items()}
    )
    said = ranker.settings()
    said.pop("weights")  # a path of this machine
    card = {
        "ranker": said,
        "calibrated": ranker.calibrated_,
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    for name, text in ((WEIGHTS, content), (CARD, (json.dumps(card | facts, indent=2) + "\n").encode())):
        write_bytes(folder / name, text)


def load(folder: Path, device: str = "cpu") -> "BayesianRanker":
    """The ranker in `folder`, for use. Raises NotFound where there is none, InvalidInput where it does not fit."""
    from cbir.active.bayesian import BayesianRanker

    weights, card = folder / WEIGHTS, _card(folder / CARD)
    content = read_verified(weights, card["sha256"])
    try:
        ranker = BayesianRanker(**card["ranker"], device=device)
        network = BayesianNetwork(ranker.backbone, ranker.dropout)
        network.load_state_dict(read_tensors(content))
    except (RuntimeError, TypeError, ValueError, SafetensorError) as error:
        raise InvalidInput(f"{weights} does not fit what its card says") from error
    ranker.network_ = network.to(device).to(memory_format=torch.channels_last).eval()
    ranker.calibrated_ = bool(card["calibrated"])
    return ranker


def _card(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise NotFound(f"there is no {path}; `cbir annotate simulate --out {path.parent}` makes one")
    try:
        found = json.loads(path.read_text())
        known = isinstance(found["ranker"], dict) and isinstance(found["sha256"], str)
        known = known and isinstance(found["calibrated"], bool)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path} is not the card of a ranker") from error
    if not known:
        raise InvalidInput(f"{path} is not the card of a ranker")
    return dict(found)
