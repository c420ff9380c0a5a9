"""Severity in a collection: its ranker, and the label that it gives to images."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbir.errors import InvalidInput, NotFound
from cbir.store import Collection
from cbir.store.base.collection_folder import share_with_group, writer_lock
from cbir.store.base.stored_models import SEVERITY_FOLDER, forget_ranker, note_ranker
from cbir.system.remedies import install_command

if TYPE_CHECKING:
    from cbir.learn.severity.sampled_ranker import SampledRanker


def store_ranker(collection: Collection, ranker: "SampledRanker", facts: dict[str, Any]) -> None:
    """Store a fitted ranker in a collection, replacing an earlier one.

    Parameters
    ----------
    collection : Collection
    ranker : SampledRanker
    facts : dict, optional
        Further fields of its card.

    Raises
    ------
    CollectionBusy
        If another process writes to the collection.
    """
    with writer_lock(collection.folder):
        forget_ranker(collection.folder)
        ranker.save(collection.folder / SEVERITY_FOLDER, facts)
        note_ranker(collection.folder)
        share_with_group(collection.folder / SEVERITY_FOLDER)


def load_stored_ranker(collection: Collection) -> "SampledRanker":
    """Load the ranker of `collection`; raise NotFound if it has none, InvalidInput without torch."""
    try:
        from cbir.learn.severity.sampled_ranker import CARD
        from cbir.learn.severity.severity_rankers import load_severity_ranker
    except ModuleNotFoundError as error:
        raise InvalidInput(f"severity of new images needs torch: {install_command('deep')}") from error
    # A last good copy uses the ranker of its collection.
    for folder in (collection.folder, collection.folder.parent):
        if (folder / SEVERITY_FOLDER / CARD).is_file():
            return load_severity_ranker(folder / SEVERITY_FOLDER)
    raise NotFound(
        "the collection has no severity ranker; train one with `cbir annotate serve` or "
        "`cbir annotate simulate --write`"
    )


def severity_of_input(ranker: "SampledRanker", values: NDArray[Any]) -> float:
    """Return the severity of one image: a picture (side, side) or values (d,), as `ranker` needs it."""
    return float(ranker.severity(values[None]).mean[0])


def ranker_descriptor(ranker: "SampledRanker") -> str | None:
    """Return the name of the descriptor whose values `ranker` takes; None if it takes pictures."""
    return getattr(ranker, "descriptor", None)


def ranker_side(ranker: "SampledRanker") -> int | None:
    """Return the side of the pictures that `ranker` takes; None if it takes values of a descriptor."""
    return getattr(ranker, "side", None)


LABEL = "severity"
DECIMALS = 4


def write_severity(
    collection: Collection, ids: Sequence[str], values: ArrayLike, who: str = "command line"
) -> int:
    """Label images with their severity, in one transaction.

    Vectors and snapshots are unchanged; readers see the labels in their next search. Images that were deleted in the
    meantime are skipped.

    Parameters
    ----------
    collection : Collection
    ids : sequence of str
        Ids of n images.
    values : (n,) float
        Severities.
    who : str
        Author in the history.

    Returns
    -------
    int
        Number of changed labels.

    Raises
    ------
    InvalidInput
        If a severity is not finite or an id occurs twice.
    CollectionBusy
        If another process writes to the collection.
    """
    severities = np.asarray(values, np.float64)
    if severities.shape != (len(ids),) or not np.isfinite(severities).all():
        raise InvalidInput(f"{len(ids)} images need as many finite severities")
    if len(set(ids)) != len(ids):
        raise InvalidInput("an image id occurs twice")
    with collection.writer(who) as writer:
        texts = (f"{value:.{DECIMALS}f}" for value in (severities.round(DECIMALS) + 0.0).tolist())  # no -0
        return writer.label_images(LABEL, dict(zip(ids, texts, strict=True)))
