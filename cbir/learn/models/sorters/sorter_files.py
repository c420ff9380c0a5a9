"""Trained sorters on disk."""

from pathlib import Path
from typing import Any

from cbir.descriptors.networks.model_card import read_model_card
from cbir.descriptors.networks.model_files import load_weights, save_model
from cbir.learn.models.sorters.cnn_sorter import CnnSorter
from cbir.learn.models.sorters.lstm_sorter import LstmSorter

TRAINABLE_SORTERS: dict[str, type[LstmSorter] | type[CnnSorter]] = {"lstm": LstmSorter, "cnn": CnnSorter}
WEIGHTS = "sorter.safetensors"  # in the folder of `cbir train sorter`
LARGEST = 64 << 20  # bytes of weights


def save_sorter(sorter: LstmSorter | CnnSorter, weights: Path, facts: dict[str, Any]) -> None:
    """Write a sorter's weights and, beside them, its card.

    Parameters
    ----------
    sorter : LstmSorter or CnnSorter
        The sorter.
    weights : Path
        File with the suffix .safetensors; the card has the suffix .json.
    facts : dict
        Further fields of the card.
    """
    facts = {"sorter": sorter.name, "options": sorter.options, **facts}
    save_model(sorter, weights, weights.with_suffix(".json"), facts)


def read_sorter_card(weights: Path) -> dict[str, Any]:
    """Read the card beside `weights`. Raises NotFound if there is none, InvalidInput if it is something else."""
    path = weights.with_suffix(".json")
    return read_model_card(path, "a sorter", f"`cbir train sorter --out {path.parent}`", _is_sorter_card)


def load_sorter(weights: Path) -> LstmSorter | CnnSorter:
    """Load a sorter from its weights and the card beside them.

    Raises NotFound if one of the two is missing, InvalidInput if they do not match.
    """
    card = read_sorter_card(weights)
    kind = TRAINABLE_SORTERS[card["sorter"]]
    return load_weights(weights, card["sha256"], lambda: kind(**card["options"]), LARGEST)


def _is_sorter_card(card: Any) -> bool:
    return card["sorter"] in TRAINABLE_SORTERS and isinstance(card["options"], dict) and "sha256" in card
