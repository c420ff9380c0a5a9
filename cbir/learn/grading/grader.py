"""Grading in a collection: fit a ranker to its graded images, and grade an image by its position among them."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir import settings
from cbir.errors import InvalidInput, NotFound
from cbir.images import Image
from cbir.images.scaling import pad_resize
from cbir.learn.grade import Grade, GradedNeighbour
from cbir.learn.grading import SeverityRanker
from cbir.learn.grading.cnn_ranker import TUNED_CNN_SIDE, CnnRanker, TunedCnnRanker
from cbir.learn.grading.graded_cases import (
    case_features,
    image_features,
    other_encoder,
    picture_maps,
    picture_side,
    read_graded_cases,
    record_features,
    require_grades,
)
from cbir.learn.grading.grading_state import GradingState, load_grading_state
from cbir.learn.grading.interpolation import GradedList, GradeInterpolator, Smoothing, locate_scores
from cbir.learn.grading.picture_maps import Show
from cbir.learn.grading.stored_grading import StoredGrading, read_stored_grading, store_grading, store_network
from cbir.learn.models.ranking_estimator import RankingEstimator
from cbir.learn.severity.stored_images import read_grey_image
from cbir.search import QueryImage, image_links
from cbir.store import Collection
from cbir.store.base import stored_models
from cbir.system.threads import checkpoint, run_to_end

LONGEST_COLUMN = 100  # characters of a label's name


class _Parsed(NamedTuple):
    """Grading of a generation of the collection, as text and parsed; None if none was fitted."""

    generation: int
    text: str | None
    stored: StoredGrading | None


class Grader:
    """Grade images by the ranker fitted to the label `column` of a collection. Thread-safe."""

    def __init__(self, collection: Collection, column: str) -> None:
        self.collection = collection
        self.column = column
        self._parsed: _Parsed | None = None
        self._state: GradingState | None = None
        self._loading = Lock()

    def picture_side(self) -> int | None:
        """Return the side of the picture that the ranker needs of a new image; None if it needs the vector."""
        stored = self._parse().stored
        if stored is None:
            return None  # `by_image` reports it
        return stored.network.side if stored.network else picture_side(self.collection, stored.ranker)

    def other_encoder(self) -> str | None:
        """Return the encoder that a new image must be described by; None for the collection's descriptor."""
        stored = self._parse().stored
        return None if stored is None else other_encoder(self.collection, stored.ranker)

    def by_image(self, image: Image | QueryImage, exclude_patient_key: str | None = None) -> Grade:
        """Grade a new image; equal pictures and other images of the patient are left out of the list.

        Raises NotFound if no ranker is fitted, InvalidInput if the image is unlike the graded ones.
        """
        stored = self._current().stored
        features: NDArray[Any]
        if stored.network is None:
            features = image_features(self.collection, stored.ranker, image)
        else:
            side = stored.network.side
            features = image.features if isinstance(image, QueryImage) else pad_resize(image, side)
        return self._grade(features, image.content_hash, exclude_patient_key)

    def by_id(self, image_id: str) -> Grade:
        """Grade an image of the collection as if it were new; its patient is left out of the list.

        Raises as `by_image`, and InvalidInput if the ranker is a network and the file of the image is gone.
        """
        stored, record = self._current().stored, self.collection.record(image_id)
        features: NDArray[Any] | None
        if stored.network is None:
            features = record_features(self.collection, stored.ranker, record)
        else:
            pixels = settings.load().max_pixels
            features = read_grey_image(self.collection, record, stored.network.side, pixels)
        if features is None:
            raise InvalidInput(
                f"image {image_id} has no file any more, which the ranker {stored.ranker} needs; put the file back "
                "where it was indexed"
            )
        return self._grade(features, record.content_hash, record.patient_key)

    def _grade(self, features: NDArray[Any], content: str, patient: str | None) -> Grade:
        state = self._current()
        stored, cases = state.stored, state.cases
        keep = cases.content_hashes != content
        if patient:
            keep &= cases.patients != patient
        rows = np.flatnonzero(keep)
        if not len(rows):
            raise InvalidInput(f"no other image has a grade in the label {self.column!r}")
        checkpoint()
        assessed, values = state.assess(features)
        if state.range is not None:
            state.range.check(values, keep)
        graded_list = GradedList(state.scores[rows], cases.grades[rows], stored.smoothing)
        scores = np.array([assessed])
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

    def _parse(self) -> _Parsed:
        """Parse the stored grading, which may have megabytes, once for each change."""
        generation, parsed = self.collection.generation(), self._parsed
        if parsed is None or parsed.generation != generation:
            text = self.collection.grade_model(self.column)
            if parsed is not None and parsed.text == text:
                stored = parsed.stored
            else:
                stored = None if text is None else read_stored_grading(text, self.column)
            parsed = self._parsed = _Parsed(generation, text, stored)
        return parsed

    def _current(self) -> GradingState:
        parsed, state = self._parse(), self._state
        if state is not None and _is_current(state, parsed):
            return state
        if parsed.stored is None:
            raise NotFound(
                f"no ranker was fitted to the label {self.column!r} yet; "
                f"`cbir grade fit --grade-column {self.column}` does it"
            )
        return run_to_end(partial(self._load, parsed, parsed.stored), self._loading)

    def _load(self, parsed: _Parsed, stored: StoredGrading) -> GradingState:
        state = self._state
        if state is None or not _is_current(state, parsed):
            state = self._state = load_grading_state(
                self.collection, self.column, stored, parsed.generation, state
            )
        return state


def _is_current(state: GradingState, parsed: _Parsed) -> bool:
    return state.generation == parsed.generation and state.stored is parsed.stored


def fit_grader(
    collection: Collection,
    column: str,
    ranker: RankingEstimator,
    where: Sequence[str] = (),
    smoothing: Smoothing = "auto",
    coverage: float = 0.9,
    side: int = TUNED_CNN_SIDE,
    show: Show = lambda stage, done, total: None,
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
        Conditions that an image must fulfil; for the ranker severity also those of its study.
    smoothing : int, "auto" or "thresholds"
        See `GradeInterpolator`.
    coverage : float
        Share of new images whose grade the interval covers.
    side : int
        Side in pixels of the pictures that a network takes.
    show : callable
        Progress callback: stage, done and total.

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
    if ranker.name == CnnRanker.name and not isinstance(ranker, TunedCnnRanker):
        raise InvalidInput(
            f"the ranker {ranker.name} without an encoder is for evaluation only; choose one with --encoder"
        )
    if ranker.name == SeverityRanker.name:  # which holds for the images of its study only
        where = (*where, *stored_models.read_severity_conditions(collection.folder))
    cases = read_graded_cases(collection, column, collection.conditions(where))
    require_grades(cases, column)
    interpolator = GradeInterpolator(ranker, smoothing, coverage, ranker.seed)
    network = None
    if isinstance(ranker, TunedCnnRanker):
        pictures = picture_maps(collection, cases, ranker.encoder, side, show)
        interpolator.fit(pictures, cases.grades, cases.groups(), show)
        network = store_network(interpolator, pictures, cases)
    else:
        features = case_features(collection, ranker.name, cases)
        interpolator.fit(features, cases.grades, cases.groups(), show)
    stored = store_grading(
        interpolator,
        network=network,
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
