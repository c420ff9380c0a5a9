"""The ranker that a collection's severities come from lies inside it, for images that come later."""

from typing import TYPE_CHECKING, Any

from cbir.errors import InvalidInput, NotFound
from cbir.images import Image
from cbir.images.pad_resize import pad_resize
from cbir.store import Collection
from cbir.store.severity_model import FOLDER
from cbir.store.writer_lock import writer_lock

if TYPE_CHECKING:
    from cbir.severity.bayesian_ranker import BayesianRanker


def store_ranker(
    collection: Collection, ranker: "BayesianRanker", facts: dict[str, Any] | None = None
) -> None:
    """Put a fitted ranker into the collection's folder, in place of the one there; `facts` go into its card.

    Raises CollectionBusy where another process writes.
    """
    with writer_lock(collection.folder):
        ranker.save(collection.folder / FOLDER, facts)


def load_stored_ranker(collection: Collection) -> "BayesianRanker":
    """The ranker that lies in a collection; raises NotFound where none does, InvalidInput where torch is missing."""
    try:
        from cbir.severity.bayesian_files import CARD
        from cbir.severity.bayesian_ranker import BayesianRanker
    except ModuleNotFoundError as error:
        raise InvalidInput("severity of new images needs torch: pip install 'cbir[deep]'") from error
    for folder in (collection.folder, collection.folder.parent):  # a last good copy uses its collection's
        if (folder / FOLDER / CARD).is_file():
            return BayesianRanker.load(folder / FOLDER)
    raise NotFound(
        "the collection has learnt no severity; `cbir annotate serve` or `cbir annotate simulate --write` does it"
    )


def severity_of_image(ranker: "BayesianRanker", image: Image) -> float:
    """The severity of one image."""
    return float(ranker.severity(pad_resize(image, ranker.side)[None]).mean[0])
