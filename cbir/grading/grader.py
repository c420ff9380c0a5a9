"""Grading in a collection: fit a ranker to its graded images, and grade an image by its position among them."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.cancellation import checkpoint, run_to_end
from cbir.errors import InvalidInput, NotFound
from cbir.grade import Grade, GradedNeighbour
from cbir.grading.cnn_ranker import CnnRanker
from cbir.grading.graded_cases import GradedCases, read_graded_cases, require_grades
from cbir.grading.graded_list import GradedList, Smoothing
from cbir.grading.grading_features import (
    case_features,
    image_features,
    other_encoder,
    picture_side,
    record_features,
)
from cbir.grading.interpolation import GradeInterpolator, locate_scores
from cbir.grading.severity_ranker import SeverityRanker
from cbir.grading.stored_grading import StoredGrading, read_stored_grading, store_grading
from cbir.grading.training_range import TrainingRange, fit_training_range
from cbir.images import Image
from cbir.models.linear.ranking_estimator import RankingEstimator
from cbir.search import QueryImage, image_links
from cbir.store import Collection
from cbir.store.filter_conditions import parse_filter

LONGEST_COLUMN = 100  # characters of a label's name


class _GradingState(NamedTuple):
    """Fitted ranker and scored cases, read again if the collection or its grading changes."""

    generation: int
    text: str
    stored: StoredGrading
    ranker: RankingEstimator
    cases: GradedCases
    scores: NDArray[np.float64]
    range: TrainingRange | None


class Grader:
    """Grade images by the ranker fitted to the label `column` of a collection. Thread-safe."""

    def __init__(self, collection: Collection, column: str) -> None:
        self.collection = collection
        self.column = column
        self._state: _GradingState | None = None
        self._loading = Lock()

    def picture_side(self) -> int | None:
        """Return the side of the picture that the ranker needs of a new image; None if it needs the vector."""
        text = self.collection.grade_model(self.column)
        if text is None:
            return None  # `by_image` reports it
        return picture_side(self.collection, read_stored_grading(text, self.column).ranker)

    def other_encoder(self) -> str | None:
        """Return the encoder that a new image must be described by; None for the collection's descriptor."""
        text = self.collection.grade_model(self.column)
        if text is None:
            return None
        return other_encoder(self.collection, read_stored_grading(text, self.column).ranker)

    def by_image(self, image: Image | QueryImage, exclude_patient_key: str | None = None) -> Grade:
        """Grade a new image; equal pictures and other images of the patient are left out of the list.

        Raises NotFound if no ranker is fitted, InvalidInput if the image is unlike the graded ones.
        """
        features = image_features(self.collection, self._current().stored.ranker, image)
        return self._grade(features, image.content_hash, exclude_patient_key)

    def by_id(self, image_id: str) -> Grade:
        """Grade an image of the collection as if it were new; its patient is left out of the list.

        Raises as `by_image`.
        """
        record = self.collection.record(image_id)
        features = record_features(self.collection, self._current().stored.ranker, record)
        return self._grade(features, record.content_hash, record.patient_key)

    def _grade(self, vector: NDArray[np.float32], content: str, patient: str | None) -> Grade:
        state = self._current()
        stored, cases = state.stored, state.cases
        keep = cases.content_hashes != content
        if patient:
            keep &= cases.patients != patient
        rows = np.flatnonzero(keep)
        if not len(rows):
            raise InvalidInput(f"no other image has a grade in the label {self.column!r}")
        checkpoint()
        if state.range is not None:
            state.range.check(state.ranker.standardised(vector[None])[0], keep)
        graded_list = GradedList(state.scores[rows], cases.grades[rows], stored.smoothing)
        scores = state.ranker.predict(vector[None])
        (placement,) = locate_scores(graded_list, scores, stored.error, stored.range, stored.grade_scale())

        def neighbour(position: int | None) -> GradedNeighbour | None:
            if position is None:
                return None
            row, name = int(rows[position]), cases.image_ids[rows[position]]
            grade, score = cases.grades[row], state.scores[row]
            return GradedNeighbour(image_id=name, grade=grade, score=score, links=image_links(name))

        neighbours = {name: neighbour(getattr(placement, name)) for name in ("lighter", "severer")}
        facts = {"coverage": stored.coverage, "grade_column": self.column, "ranker": stored.ranker}
        return Grade(**asdict(placement) | neighbours | facts, graded=len(rows))

    def _current(self) -> _GradingState:
        text = self.collection.grade_model(self.column)
        generation = self.collection.generation()
        state = self._state
        if state is not None and state.generation == generation and state.text == text:
            return state
        if text is None:
            raise NotFound(
                f"no ranker was fitted to the label {self.column!r} yet; "
                f"`cbir grade fit --grade-column {self.column}` does it"
            )
        return run_to_end(partial(self._load, text, generation), self._loading)

    def _load(self, text: str, generation: int) -> _GradingState:
        state = self._state
        if state is None or state.generation != generation or state.text != text:
            state = self._state = self._read(text, generation)
        return state

    def _read(self, text: str, generation: int) -> _GradingState:
        stored = read_stored_grading(text, self.column)
        if stored.profile_hash != self.collection.profile.hash:
            raise InvalidInput("the collection has another profile now; run `cbir grade fit` again")
        ranker = stored.fitted_ranker()
        cases = read_graded_cases(self.collection, self.column, [parse_filter(text) for text in stored.where])
        require_grades(cases, self.column)
        features = case_features(self.collection, ranker.name, cases)
        known = None
        if ranker.name != SeverityRanker.name:  # whose one value says nothing about the picture
            known = fit_training_range(ranker.standardised(features), cases.patients)
        return _GradingState(generation, text, stored, ranker, cases, ranker.predict(features), known)


def fit_grader(
    collection: Collection,
    column: str,
    ranker: RankingEstimator,
    where: Sequence[str] = (),
    smoothing: Smoothing = "auto",
    coverage: float = 0.9,
) -> StoredGrading:
    """Fit a ranker to the graded images of a collection, and store it there.

    Parameters
    ----------
    collection : Collection
        The collection.
    column : str
        Label of the grades.
    ranker : RankingEstimator
        Not fitted.
    where : sequence of str
        Conditions that an image must fulfil.
    smoothing : int, "auto" or "thresholds"
        See `GradeInterpolator`.
    coverage : float
        Share of new images whose grade the interval covers.

    Returns
    -------
    StoredGrading

    Raises
    ------
    InvalidInput
        If there are too few images, or a grade is not a number.
    CollectionBusy
        If another process writes to the collection.
    """
    if not 0 < len(column) <= LONGEST_COLUMN:
        raise InvalidInput(f"the name of a label has 1 to {LONGEST_COLUMN} characters")
    if ranker.name == CnnRanker.name:
        raise InvalidInput(
            f"the ranker {ranker.name} is for evaluation only; to grade with a network, train one by `cbir train "
            "embedding --loss ordinal`, index with it, and fit s-ndcg"
        )
    cases = read_graded_cases(collection, column, [parse_filter(text) for text in where])
    require_grades(cases, column)
    interpolator = GradeInterpolator(ranker, smoothing, coverage, ranker.seed)
    interpolator.fit(case_features(collection, ranker.name, cases), cases.grades, cases.groups())
    stored = store_grading(
        interpolator,
        profile_hash=collection.profile.hash,
        column=column,
        where=tuple(where),
        images=len(cases),
        patients=len(np.unique(cases.patients)),
        fitted=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    with collection.writer() as writer:
        writer.set_grade_model(column, stored.model_dump_json())
    return stored
