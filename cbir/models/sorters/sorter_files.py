"""Trained sorters on disk: weights as safetensors, and a card beside them."""

import hashlib
import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as read_tensors
from safetensors.torch import save as write_tensors

from cbir.errors import InvalidInput, NotFound
from cbir.models.model_card import read_verified
from cbir.models.sorters.cnn_sorter import CnnSorter
from cbir.models.sorters.lstm_sorter import LstmSorter

TRAINABLE_SORTERS: dict[str, type[LstmSorter] | type[CnnSorter]] = {"lstm": LstmSorter, "cnn": CnnSorter}
LARGEST = 64 << 20  # bytes of weights


def save_sorter(sorter: LstmSorter | CnnSorter, weights: Path, facts: dict[str, Any]) -> None:
    """Write `weights` (.safetensors) and a card (.json): the sorter's options, their hash, and `facts`."""
    content = write_tensors({name: value.cpu().contiguous() for name, value in sorter.state_dict().items()})
    read_sorter_card = {"sorter": sorter.name, "options": sorter.options, "sha256": hashlib.sha256(content).hexdigest()}
    weights.write_bytes(content)
    weights.with_suffix(".json").write_text(json.dumps(read_sorter_card | facts, indent=2) + "\n")


def read_sorter_card(weights: Path) -> dict[str, Any]:
    """The card beside `weights`. Raises NotFound without one, InvalidInput for one that is no card of a sorter."""
    path = weights.with_suffix(".json")
    if not path.is_file():
        raise NotFound(f"there is no card {path}; a trained sorter has one beside its weights")
    try:
        found = json.loads(path.read_text())
        known = found["sorter"] in TRAINABLE_SORTERS and isinstance(found["options"], dict) and "sha256" in found
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path} is not the card of a sorter") from error
    if not known:
        raise InvalidInput(f"{path} is not the card of a sorter; there are: {', '.join(TRAINABLE_SORTERS)}")
    return dict(found)


def load_sorter(weights: Path) -> LstmSorter | CnnSorter:
    """The sorter of a file of weights and its card; nothing is unpickled.

    Raises NotFound where one of the two is missing, InvalidInput where they do not belong together.
    """
    facts = read_sorter_card(weights)
    content = read_verified(weights, facts["sha256"], LARGEST)
    try:
        sorter = TRAINABLE_SORTERS[facts["sorter"]](**facts["options"])
        sorter.load_state_dict(read_tensors(content))
    except (RuntimeError, TypeError, SafetensorError) as error:
        raise InvalidInput(f"{weights} does not fit the options of its card") from error
    return sorter
