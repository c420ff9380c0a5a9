"""Trained rankers on disk: a folder with weights as safetensors, and a card."""

import hashlib
import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as read_tensors
from safetensors.torch import save as write_tensors

from cbir.errors import InvalidInput, NotFound
from cbir.models.model_card import read_verified
from cbir.models.scoring_network import ScoringNetwork

WEIGHTS, CARD = "ranker.safetensors", "ranker.json"
SIDES = (32, 1024)


def save_scoring_network(ranker: ScoringNetwork, folder: Path, facts: dict[str, Any]) -> None:
    """Write the weights and the card (what the ranker is, the hash of its weights, and `facts`) into `folder`."""
    tensors = {name: value.cpu().contiguous() for name, value in ranker.state_dict().items()}
    content = write_tensors(tensors)
    card = {"ranker": ranker.options, "sha256": hashlib.sha256(content).hexdigest()} | facts
    (folder / WEIGHTS).write_bytes(content)
    (folder / CARD).write_text(json.dumps(card, indent=2, allow_nan=False) + "\n")


def load_scoring_network(folder: Path) -> tuple[ScoringNetwork, dict[str, Any]]:
    """The ranker in `folder`, for use, and its card; nothing is unpickled.

    Raises NotFound where there is none, InvalidInput where weights and card do not belong together.
    """
    weights, card = folder / WEIGHTS, _card(folder / CARD)
    content = read_verified(weights, card["sha256"])
    try:
        ranker = ScoringNetwork(**card["ranker"])
        ranker.load_state_dict(read_tensors(content))
    except (RuntimeError, TypeError, SafetensorError) as error:
        raise InvalidInput(f"{weights} does not fit what its card says") from error
    return ranker.eval(), card


def highest_negative_score(card: dict[str, Any]) -> float:
    """The highest score of a negative that training did not see; scores above it are what Pos@Top counts.

    Raises InvalidInput where the card does not tell.
    """
    try:
        return max(float(card["results"][part]["highest_negative"]) for part in ("validation", "test"))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"{CARD} does not tell the scores of negatives; train the ranker again") from error


def _card(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise NotFound(f"there is no {path}; `cbir train ranker --out {path.parent}` makes one")
    try:
        found = json.loads(path.read_text())
        options, side = found["ranker"], found["ranker"]["side"]
        known = (
            isinstance(options["backbone"], str)
            and isinstance(side, int)
            and isinstance(found["sha256"], str)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path} is not the card of a ranker") from error
    if not known or not SIDES[0] <= side <= SIDES[1]:
        raise InvalidInput(f"{path} is not the card of a ranker")
    return dict(found)
