"""Images that are annotated, and the choice of the one to annotate next."""

from collections.abc import Callable
from functools import partial

import numpy as np

from cbir.errors import InvalidInput, NotFound
from cbir.search import Searcher
from cbir.store import Collection, Record
from cbir.store.records.image_order import parse_order

ANNOTATION = "annotation"  # key of the label
FINAL = "final"  # tag of MONAI Label for segmentations that a person has finished
CANDIDATES = 2000  # open images, drawn at random, that core-set chooses from
CENTRES = 500  # annotated images, the last added, that it chooses far from


class AnnotatedImages:
    """Annotated and open images that the caller may see."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        try:
            collection.conditions([f"{ANNOTATION}?"])
            self.any = True
        except InvalidInput:  # no image has the label
            self.any = False

    @property
    def open_where(self) -> list[str]:
        """Conditions of the images that are still to be annotated."""
        return [f"!{ANNOTATION}?"] if self.any else []

    def first_open(self) -> Record | None:
        """Return the image that was added first among those to be annotated."""
        conditions = self.collection.conditions(self.open_where)
        page = self.collection.sorted_page(parse_order("oldest"), None, 1, conditions)
        return page[0][1] if page else None

    def latest(self, count: int) -> list[Record]:
        """Return at most `count` annotated images, the last added first."""
        if not self.any:
            return []
        conditions = self.collection.conditions([f"{ANNOTATION}?"])
        return [
            record
            for _, record in self.collection.sorted_page(parse_order("newest"), None, count, conditions)
        ]

    def tags(self) -> dict[str, int]:
        """Return the numbers of annotated images by tag."""
        if not self.any:
            return {}
        return {item.value: item.images for item in self.collection.list_label_values(ANNOTATION).items}


def choose_sample(strategy: str, searcher: Searcher) -> Record | None:
    """Return the image to annotate next; None if all are annotated.

    Parameters
    ----------
    strategy : str
        One of STRATEGIES.
    searcher : Searcher
        Of the images that the caller may see.

    Raises
    ------
    NotFound
        If there is no such strategy.
    """
    if strategy not in STRATEGIES:
        raise NotFound(f"there is no strategy {strategy[:64]}; available: {', '.join(STRATEGIES)}")
    return STRATEGIES[strategy][1](searcher, AnnotatedImages(searcher.collection))


def _from_pool(searcher: Searcher, images: AnnotatedImages, with_centres: bool) -> Record | None:
    """Return the open image farthest from the annotated ones, or without centres a random one."""
    from cbir.gallery.vector_blocks import is_among
    from cbir.search.cohorts.cohort_pool import collect_pool
    from service.features.annotate.active.strategies import (
        farthest,  # with SciPy, which a start should not wait for
    )

    rng = np.random.default_rng()
    ids = [record.image_id for record in images.latest(CENTRES)] if with_centres else []
    centres = np.sort(np.array(list(searcher.collection.numbers_by_id(ids).values()), np.int64))
    pool = collect_pool(searcher, images.open_where, centres, centres, np.empty(0, np.int64))
    centre_rows = pool.rows_of(centres)
    searched = pool.searched_rows()
    open_rows = searched[~is_among(searched, centre_rows)]
    if not len(open_rows):
        return images.first_open()
    rows = rng.choice(open_rows, min(CANDIDATES if with_centres else 1, len(open_rows)), replace=False)
    features, annotated = (pool.vectors.vectors(each).astype(np.float64) for each in (rows, centre_rows))
    (position,) = farthest(features, annotated, 1, rng)
    number = int(pool.numbers[rows[position]])
    return searcher.collection.records([number]).get(number)


Choose = Callable[[Searcher, AnnotatedImages], Record | None]

STRATEGIES: dict[str, tuple[str, Choose]] = {
    "random": ("A random image among those that are not annotated", partial(_from_pool, with_centres=False)),
    "first": (
        "The image that was added first among those that are not annotated",
        lambda _, images: images.first_open(),
    ),
    "core-set": (
        "The image that looks least like the annotated ones (greedy k-center)",
        partial(_from_pool, with_centres=True),
    ),
}
