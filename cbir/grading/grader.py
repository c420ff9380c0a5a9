"""A collection that grades: learn from its graded images, place a new one among them. Both doors call it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput, NotFound
from cbir.grading.cases import Cases, graded_cases, need_grades
from cbir.grading.cnn import CnnRanker
from cbir.grading.grade import Grade, GradedNeighbour
from cbir.grading.graded_list import GradedList, Smoothing
from cbir.grading.interpolation import GradeInterpolator, placed
from cbir.grading.seen import features_of_cases, features_of_id, features_of_image
from cbir.grading.stored import StoredGrading, read, store
from cbir.images import Image
from cbir.models.linear.ranking_estimator import RankingEstimator
from cbir.search import image_links
from cbir.store import Collection
from cbir.store.filter_conditions import parse_filter
from cbir.store.records import hash_patient

MOST_COLUMN = 100  # letters of a label's name


class _Known(NamedTuple):
    """What is read again only when the collection or what was learnt from it has changed."""

    generation: int
    text: str
    stored: StoredGrading
    ranker: RankingEstimator
    cases: Cases
    scores: NDArray[np.float64]


class Grader:
    """Grades images by what was learnt from the label `column` of a collection. Thread-safe."""

    def __init__(self, collection: Collection, column: str) -> None:
        self.collection = collection
        self.column = column
        self._known: _Known | None = None

    def by_image(self, image: Image, exclude_patient: str | None = None) -> Grade:
        """The grade of a new image; equal pictures, and the patient's others, are left out of the list.

        exclude_patient: a patient key, or the identifier it was made from. Raises NotFound before `cbir grade fit`.
        """
        seen = features_of_image(self.collection, self._current().stored.ranker, image)
        return self._grade(seen, image.content_hash, exclude_patient)

    def by_id(self, image_id: str) -> Grade:
        """The grade that an image of the collection would get, were it not graded; its patient is left out."""
        record = self.collection.record(image_id)
        seen = features_of_id(self.collection, self._current().stored.ranker, record)
        return self._grade(seen, record.content_hash, record.patient_key)

    def _grade(self, vector: NDArray[np.float32], content: str, patient: str | None) -> Grade:
        known = self._current()
        stored, cases = known.stored, known.cases
        keep = cases.contents != content
        if patient:
            keep &= (cases.patients != patient) & (
                cases.patients != hash_patient(self.collection.secret, patient)
            )
        rows = np.flatnonzero(keep)
        if not len(rows):
            raise InvalidInput(f"no other image has a grade in the label {self.column!r}")
        graded_list = GradedList(known.scores[rows], cases.grades[rows], stored.smoothing)
        (found,) = placed(graded_list, known.ranker.predict(vector[None]), stored.error, stored.range)

        def neighbour(place: int | None) -> GradedNeighbour | None:
            if place is None:
                return None
            row, name = int(rows[place]), cases.image_ids[rows[place]]
            return GradedNeighbour(
                image_id=name,
                grade=cases.grades[row],
                score=known.scores[row],
                links=image_links(name),
            )

        return Grade(
            grade=found.grade,
            low=found.low,
            high=found.high,
            coverage=stored.coverage,
            score=found.score,
            grade_column=self.column,
            ranker=stored.ranker,
            graded=len(rows),
            lighter=neighbour(found.lighter),
            severer=neighbour(found.severer),
        )

    def _current(self) -> _Known:
        text = self.collection.grade_model(self.column)
        generation = self.collection.generation()
        known = self._known
        if known is not None and known.generation == generation and known.text == text:
            return known
        if text is None:
            raise NotFound(
                f"nothing was learnt from the label {self.column!r} yet; "
                f"`cbir grade fit --grade-column {self.column}` does it"
            )
        stored = read(text, self.column)
        if stored.profile_hash != self.collection.profile.hash:
            raise InvalidInput(
                "the collection has another profile now; `cbir grade fit` learns its grades anew"
            )
        ranker = stored.fitted_ranker()
        cases = graded_cases(self.collection, self.column, [parse_filter(text) for text in stored.where])
        need_grades(cases, self.column)
        scores = ranker.predict(features_of_cases(self.collection, ranker.name, cases))
        self._known = _Known(generation, text, stored, ranker, cases, scores)
        return self._known


def fit(
    collection: Collection,
    column: str,
    ranker: RankingEstimator,
    where: Sequence[str] = (),
    smoothing: Smoothing = "auto",
    coverage: float = 0.9,
) -> StoredGrading:
    """Learn from the graded images of a collection for which every condition of `where` holds, and keep it there.

    Raises InvalidInput where they are too few or a grade is no number, CollectionBusy where another process writes.
    """
    if not 0 < len(column) <= MOST_COLUMN:
        raise InvalidInput(f"the name of a label has 1 to {MOST_COLUMN} letters")
    if ranker.name == CnnRanker.name:
        raise InvalidInput(
            f"the ranker {ranker.name} is there to be evaluated; to grade with a network, train one by `cbir train "
            "embedding --loss ordinal`, index with it, and fit s-ndcg"
        )
    cases = graded_cases(collection, column, [parse_filter(text) for text in where])
    need_grades(cases, column)
    learnt = GradeInterpolator(ranker, smoothing, coverage, ranker.seed)
    learnt.fit(features_of_cases(collection, ranker.name, cases), cases.grades, cases.patients)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    patients = len(np.unique(cases.patients))
    kept = store(learnt, collection.profile.hash, column, tuple(where), len(cases), patients, now)
    with collection.writer() as writer:
        writer.set_grade_model(column, kept.model_dump_json())
    return kept
