"""Storage of a severity ranker inside a collection, for the severity of new images."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput, NotFound
from cbir.store import Collection
from cbir.store.severity_model import FOLDER
from cbir.store.writer_lock import writer_lock

if TYPE_CHECKING:
    from cbir.severity.bayesian_ranker import BayesianRanker


def store_ranker(collection: Collection, ranker: "BayesianRanker", facts: dict[str, Any]) -> None:
    """Store a fitted ranker in a collection, replacing an earlier one.

    Parameters
    ----------
    collection : Collection
    ranker : BayesianRanker
    facts : dict, optional
        Further fields of its card.

    Raises
    ------
    CollectionBusy
        If another process writes to the collection.
    """
    with writer_lock(collection.folder):
        ranker.save(collection.folder / FOLDER, facts)


def load_stored_ranker(collection: Collection) -> "BayesianRanker":
    """Load the ranker of `collection`; raise NotFound if it has none, InvalidInput without torch."""
    try:
        from cbir.severity.bayesian_ranker import CARD, load_bayesian_ranker
    except ModuleNotFoundError as error:
        raise InvalidInput("severity of new images needs torch: pip install 'cbir[deep]'") from error
    # A last good copy uses the ranker of its collection.
    for folder in (collection.folder, collection.folder.parent):
        if (folder / FOLDER / CARD).is_file():
            return load_bayesian_ranker(folder / FOLDER)
    raise NotFound(
        "the collection has no severity ranker; train one with `cbir annotate serve` or "
        "`cbir annotate simulate --write`"
    )


def severity_of_picture(ranker: "BayesianRanker", picture: NDArray[np.uint8]) -> float:
    """Return the severity of a `picture`, (side, side) as `ranker` needs it."""
    return float(ranker.severity(picture[None]).mean[0])
