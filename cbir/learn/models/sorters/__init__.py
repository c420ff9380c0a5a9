"""Sorters: differentiable modules that map scores (batch, d) to ranks (batch, d), 1 for the largest."""

from pathlib import Path

from cbir.errors import NotFound
from cbir.learn.models.sorters import sorter_files
from cbir.learn.models.sorters.cnn_sorter import CnnSorter
from cbir.learn.models.sorters.exact import exact_ranks
from cbir.learn.models.sorters.handcrafted_sorter import HandcraftedSorter
from cbir.learn.models.sorters.lstm_sorter import LstmSorter
from cbir.learn.models.sorters.pairwise_sorter import PairwiseSorter
from cbir.learn.models.sorters.sorter import Sorter

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

SHIPPED = Path(__file__).parent / "weights"
UNTRAINED: dict[str, type[PairwiseSorter] | type[HandcraftedSorter]] = {
    member.name: member for member in (PairwiseSorter, HandcraftedSorter)
}


def names() -> tuple[str, ...]:
    """Return the names that `load` accepts."""
    return (*UNTRAINED, *sorter_files.TRAINABLE_SORTERS)


def load(name: str | Path, frozen: bool = True) -> Sorter:
    """Load a sorter by name, or from the folder or the weights (.safetensors) that `cbir train sorter` wrote.

    With `frozen`, it is not trained any further; gradients still reach the scores. Raises NotFound, with the known
    names, for anything else, and InvalidInput for weights that do not match their card.
    """
    if name in UNTRAINED:
        sorter: Sorter = UNTRAINED[str(name)]()
    elif name in sorter_files.TRAINABLE_SORTERS:
        sorter = sorter_files.load_sorter(SHIPPED / f"{name}.safetensors")
    elif Path(name).suffix == ".safetensors" or Path(name).is_dir():
        sorter = sorter_files.load_sorter(sorter_weights(name))
    else:
        listed = ", ".join(names())
        raise NotFound(
            f"there is no sorter {str(name)!r}; there are: {listed}, or a folder or .safetensors file of "
            "`cbir train sorter`"
        )
    return sorter.freeze() if frozen else sorter


def sorter_weights(name: str | Path) -> Path:
    """Return the weights of a sorter that `cbir train sorter` wrote into the folder, or the file, `name`."""
    return Path(name) / sorter_files.WEIGHTS if Path(name).is_dir() else Path(name)
