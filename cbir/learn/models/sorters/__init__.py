"""Sorters: differentiable modules that map scores (batch, d) to ranks (batch, d), 1 for the largest; their files."""

from pathlib import Path
from typing import Any

from cbir.descriptors.networks.model_card import read_model_card
from cbir.descriptors.networks.model_files import load_weights, save_model
from cbir.errors import NotFound
from cbir.learn.models.sorters.sorter import HandcraftedSorter, PairwiseSorter, Sorter, exact_ranks
from cbir.learn.models.sorters.trainable_sorters import CnnSorter, LstmSorter

__all__ = [
    "CnnSorter",
    "HandcraftedSorter",
    "LstmSorter",
    "PairwiseSorter",
    "Sorter",
    "exact_ranks",
    "load",
    "names",
    "sorter_weights",
]

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


SHIPPED = Path(__file__).parent / "weights"
UNTRAINED: dict[str, type[PairwiseSorter] | type[HandcraftedSorter]] = {
    member.name: member for member in (PairwiseSorter, HandcraftedSorter)
}


def names() -> tuple[str, ...]:
    """Return the names that `load` accepts."""
    return (*UNTRAINED, *TRAINABLE_SORTERS)


def load(name: str | Path, frozen: bool = True) -> Sorter:
    """Load a sorter by name, or from the folder or the weights (.safetensors) that `cbir train sorter` wrote.

    With `frozen`, it is not trained any further; gradients still reach the scores. Raises NotFound, with the known
    names, for anything else, and InvalidInput for weights that do not match their card.
    """
    if name in UNTRAINED:
        sorter: Sorter = UNTRAINED[str(name)]()
    elif name in TRAINABLE_SORTERS:
        sorter = load_sorter(SHIPPED / f"{name}.safetensors")
    elif Path(name).suffix == ".safetensors" or Path(name).is_dir():
        sorter = load_sorter(sorter_weights(name))
    else:
        listed = ", ".join(names())
        raise NotFound(
            f"there is no sorter {str(name)!r}; there are: {listed}, or a folder or .safetensors file of "
            "`cbir train sorter`"
        )
    return sorter.freeze() if frozen else sorter


def sorter_weights(name: str | Path) -> Path:
    """Return the weights of a sorter that `cbir train sorter` wrote into the folder, or the file, `name`."""
    return Path(name) / WEIGHTS if Path(name).is_dir() else Path(name)
