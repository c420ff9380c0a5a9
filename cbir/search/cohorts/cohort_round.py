"""A round of a cohort: which images to judge next, and how many are missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cbir.errors import InvalidInput
from cbir.gallery.gallery import top_k
from cbir.gallery.vector_blocks import Doubles, Rows, is_among
from cbir.search import Searcher
from cbir.search.cohorts.cohort_pool import (
    NO_COMPANIONS,
    CohortPool,
    Companions,
    RelevanceModel,
    add_evidence,
    collect_pool,
    find_companions,
    learn_relevance,
    likeness_margins,
)
from cbir.search.cohorts.missing_images import JudgedImage, MissingImages, ProposedImage, estimate_missing
from cbir.store.index.port import Numbers
from cbir.store.records.filter_conditions import Condition
from cbir.system.threads import take_turn

BACKGROUND, BACKGROUND_MOST = 200, 1000  # random images that count as not relevant in training
BACKGROUND_GROWTH = 4  # more of them for each image judged not relevant
DRAWN = 12  # of so many images of a batch, one is drawn at random
DRY = 24  # judged images without a relevant one, after which images like single examples are proposed too
COMPARED = 10_000  # most probable images that are compared with single examples
EXAMPLES = 1000  # of each kind, the last judged, that they are compared with
LIKENESS = 0.2  # log odds that a margin of likeness adds, in units of the squared spread of values
SAME_PATIENT = 4.0  # log odds that an image gains if one of its patient was found, times the agreement
BATCH = 24  # images of a batch, unless the user says otherwise


@dataclass(frozen=True, eq=False)
class CohortRound:
    """State of a cohort after some judgements.

    pool: the images that are searched. judged: judgements of images that the pool has, and their rows. companions:
    images of the patients of whom one was found.
    """

    pool: CohortPool
    judged: Sequence[JudgedImage]
    judged_rows: Rows
    companions: Companions = NO_COMPANIONS

    @cached_property
    def seed(self) -> int:
        """Seed of random draws: another one after each judgement."""
        return len(self.judged)

    @cached_property
    def unjudged(self) -> Rows:
        """Rows that are searched and not judged."""
        mask = np.zeros(len(self.pool.numbers), bool)
        mask[self.pool.searched_rows()] = True
        mask[self.judged_rows] = False
        return np.flatnonzero(mask)

    @cached_property
    def model(self) -> RelevanceModel:
        """Classifier that is trained on the judgements.

        Random images count as not relevant. Where the cohort is a tenth of the collection, so is it of them, and
        probabilities are too low; so they are few while nearly all judged images are relevant.
        """
        relevant = np.array([image.relevant for image in self.judged], bool)
        random = np.random.default_rng(self.seed)
        count = min(BACKGROUND + BACKGROUND_GROWTH * int((~relevant).sum()), BACKGROUND_MOST)
        background = random.choice(self.unjudged, min(count, len(self.unjudged)), replace=False)
        vectors = self.pool.vectors.vectors
        return learn_relevance(
            vectors(self.judged_rows[relevant]), vectors(self.judged_rows[~relevant]), vectors(background)
        )

    @cached_property
    def probabilities(self) -> Doubles:
        """Probabilities (u,) that the unjudged images are relevant.

        Likeness to single examples and being of a patient of whom an image was found change their order.
        """
        probabilities = self.model.probabilities(self.pool.vectors, self.unjudged)
        evidence = LIKENESS * self._margins_of_all(probabilities) / self.model.spread**2
        evidence[is_among(self.pool.numbers[self.unjudged], self.companions.numbers)] += (
            SAME_PATIENT * self.companions.agreement
        )
        return add_evidence(probabilities, evidence, self.unjudged_weights)

    @cached_property
    def unjudged_weights(self) -> Doubles:
        """Number of images that each unjudged one stands for, (u,)."""
        weights = np.ones(len(self.pool.numbers))
        weights[self.pool.searched_rows()] = self.pool.weights
        return np.asarray(weights[self.unjudged])

    def missing(self) -> MissingImages:
        """Return the estimate of how many relevant images are not judged."""
        expected = float(self.unjudged_weights @ self.probabilities)
        left = max(self.pool.total - len(self.pool.searched_rows()) + len(self.unjudged), len(self.unjudged))
        return estimate_missing(self.judged, expected, left)

    def next_images(self, count: int = BATCH) -> list[tuple[int, float, bool]]:
        """Return images to judge: most of them the most probable, and some that are drawn at random.

        Half of the draws are even, half by probability. While judgements find nothing, every second of the others is
        one that is more like a relevant image than like any other that is judged.

        Parameters
        ----------
        count : int
            Number of images; fewer where fewer are not judged.

        Returns
        -------
        list of (int, float, bool)
            Number of the image, probability, and whether it was drawn; the most probable first.
        """
        probable = self._promising(min(count - count // DRAWN, len(self.unjudged)))
        others = np.delete(np.arange(len(self.unjudged)), probable)
        chances = 0.5 / max(len(others), 1) + 0.5 * self.probabilities[others] / max(
            self.probabilities[others].sum(), 1e-300
        )
        size = min(count - len(probable), len(others))
        random = np.random.default_rng(self.seed)
        surprises = (
            random.choice(others, size, replace=False, p=chances / chances.sum()) if size else others[:0]
        )
        batch = [(int(each), False) for each in probable] + [(int(each), True) for each in surprises]
        numbers = self.pool.numbers[self.unjudged]
        images = [(int(numbers[each]), float(self.probabilities[each]), is_drawn) for each, is_drawn in batch]
        return sorted(images, key=lambda image: -image[1])

    def _promising(self, count: int) -> Rows:
        """Return indices of unjudged images: the most probable, by turns with the likest while nothing is found."""
        recent = self.judged[-DRY:]
        if len(recent) < DRY or any(image.relevant for image in recent):
            return top_k(self.probabilities, count)
        probable = top_k(self.probabilities, max(COMPARED, count))
        likest = probable[top_k(self._margins(self.unjudged[probable]), count)]
        turns = np.column_stack((probable[:count], likest)).ravel()
        first = np.sort(np.unique(turns, return_index=True)[1])
        return np.asarray(turns[first][:count])

    def _margins_of_all(self, probabilities: Doubles) -> Doubles:
        """Return the margins of the most probable unjudged images, and their median for the others.

        All are 0 until an image is judged not relevant.
        """
        if all(image.relevant for image in self.judged) or not len(probabilities):
            return np.zeros(len(probabilities))
        compared = top_k(probabilities, COMPARED)
        compared_margins = self._margins(self.unjudged[compared])
        margins = np.full(len(probabilities), np.median(compared_margins))
        margins[compared] = compared_margins
        return margins

    def _margins(self, rows: Rows) -> Doubles:
        """Return how much more images are like a relevant example than like any other."""
        relevant = np.array([image.relevant for image in self.judged], bool)
        vectors = self.pool.vectors.vectors
        return likeness_margins(
            vectors(rows),
            vectors(self.judged_rows[relevant][-EXAMPLES:]),
            vectors(self.judged_rows[~relevant][-EXAMPLES:]),
        )


@take_turn()
def start_round(
    searcher: Searcher, judged: Sequence[JudgedImage], where: Sequence[str | Condition] = ()
) -> CohortRound:
    """Return the state of a cohort, from which the next images and the estimate come.

    Parameters
    ----------
    searcher : Searcher
        Of the collection.
    judged : sequence of JudgedImage
        Judgements in their order; those of images that the collection does not have are left out.
    where : sequence of str or Condition
        Conditions on labels of the images that are searched.

    Raises
    ------
    InvalidInput
        If no image of the collection is judged relevant.
    """
    number_of = searcher.collection.numbers_by_id(image.image_id for image in judged)
    judged = [image for image in judged if image.image_id in number_of]
    _require_relevant(judged)
    numbers = np.array([number_of[image.image_id] for image in judged], np.int64)
    is_relevant = np.array([image.relevant for image in judged], bool)
    relevant: Numbers = numbers[is_relevant]
    companions = find_companions(searcher.collection, relevant, numbers[~is_relevant])
    pool = collect_pool(searcher, where, relevant, numbers, companions.numbers)
    present = is_among(numbers, pool.numbers)  # others were deleted meanwhile
    judged = [image for image, is_present in zip(judged, present, strict=True) if is_present]
    _require_relevant(judged)
    return CohortRound(pool, judged, pool.rows_of(numbers), companions)


def _require_relevant(judged: Sequence[JudgedImage]) -> None:
    if not any(image.relevant for image in judged):
        raise InvalidInput("relevant: a cohort needs an image that belongs to it; name one of the collection")


def next_batch(searcher: Searcher, current: CohortRound, count: int = BATCH) -> list[ProposedImage]:
    """Return the images to judge next by their ids.

    Parameters
    ----------
    searcher : Searcher
    current : CohortRound
    count : int
        Number of images.
    """
    images = current.next_images(count)
    records = searcher.collection.records([number for number, _, _ in images])
    return [
        ProposedImage(records[number].image_id, probability, is_drawn)
        for number, probability, is_drawn in images
        if number in records
    ]
