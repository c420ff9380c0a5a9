"""Fitted graders as JSON, which loads without executing anything in it."""

import base64
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from cbir.errors import InvalidInput
from cbir.learn import grading
from cbir.learn.grading.grade_scale import GradeScale
from cbir.learn.grading.graded_list import Smoothing
from cbir.learn.grading.interpolation import GradeInterpolator
from cbir.learn.grading.stored_network import StoredNetwork
from cbir.learn.models.linear.ranking_estimator import FeatureRanker

Floats = NDArray[np.float64]

INTEGERS = ("features_",)
PACKED = ("axes_", "landmarks_")  # have the precision of float32
FORMAT = 1


class PackedArray(BaseModel):
    """An array of float32 as base64: a quarter of the length of its numbers as text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    shape: tuple[int, int]
    data: str

    def array(self) -> Floats:
        """Return the array as float64; raise InvalidInput if it is damaged."""
        try:
            values = np.frombuffer(base64.b64decode(self.data, validate=True), "<f4").reshape(self.shape)
        except ValueError as error:
            raise InvalidInput("the stored grader is damaged; run `cbir grade fit` again") from error
        return values.astype(np.float64)


class StoredGrading(BaseModel):
    """A fitted ranker and the state of its `GradeInterpolator`; the graded images stay in the collection.

    Attributes
    ----------
    profile_hash : str
        Profile of the vectors in training.
    column, where
        Label of the grades, and conditions on the images.
    ranker, options
        Name and options of the ranker.
    learned : dict
        Its attributes that end with `_`, as lists; large ones packed.
    smoothing : int or "auto"
        See `GradedList`.
    error, coverage : float
        Half the width of the interval, which covers this share of the grades.
    range : (float, float)
        Lowest and highest grade.
    scale : three lists of float, optional
        Scores, levels and half widths of a `GradeScale`; None: grades come from neighbours.
    network : StoredNetwork, optional
        Of the ranker cnn, in place of `learned`.
    images, patients : int
        Numbers in training.
    fitted : str
        Date and time.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = FORMAT
    profile_hash: str
    column: str
    where: tuple[str, ...]
    ranker: str
    options: dict[str, Any]
    learned: dict[str, list[float] | list[list[float]] | float | PackedArray]
    smoothing: Smoothing
    error: float
    coverage: float
    range: tuple[float, float]
    scale: tuple[list[float], list[float], list[float]] | None = None
    network: StoredNetwork | None = None
    images: int
    patients: int
    fitted: str

    def fitted_ranker(self) -> FeatureRanker:
        """Rebuild the fitted ranker; `network` opens itself."""
        ranker = grading.make_ranker(self.ranker, **self.options)
        assert isinstance(ranker, FeatureRanker)
        for name, value in self.learned.items():
            kind = np.int64 if name in INTEGERS else np.float64
            if isinstance(value, PackedArray):
                setattr(ranker, name, value.array())
            else:
                setattr(ranker, name, np.asarray(value, kind) if isinstance(value, list) else value)
        with np.errstate(divide="ignore"):
            ranker.scale_ = 1.0 / ranker.scale_
        ranker.n_features_in_ = len(ranker.mean_)
        return ranker

    def grade_scale(self) -> GradeScale | None:
        """Return the thresholds; None if grades come from neighbours."""
        return None if self.scale is None else GradeScale(*map(np.array, self.scale))


def store_grading(interpolator: GradeInterpolator, **facts: Any) -> StoredGrading:
    """Convert a fitted `interpolator` with a coverage for storage; `facts` are further fields of `StoredGrading`.

    Deviations are stored as their inverse, 0 for infinite ones.
    """
    ranker, scale = interpolator.ranker_, interpolator.scale_
    parts = None if scale is None else (scale.scores, scale.levels, cast(Floats, scale.half_widths))
    learned: dict[str, Any] = {}
    if facts.get("network") is None:
        learned = {name: value for name, value in vars(ranker).items() if name.endswith("_")}
        learned["scale_"] = 1 / ranker.scale_
        del learned["n_features_in_"]
    return StoredGrading(
        ranker=ranker.name,
        options=ranker.get_params(),
        learned={name: _storable(name, value) for name, value in learned.items()},
        smoothing=interpolator.smoothing,
        error=cast(float, interpolator.error_),
        coverage=cast(float, interpolator.coverage),
        range=interpolator.range_,
        scale=None if parts is None else tuple(part.tolist() for part in parts),
        **facts,
    )


def _storable(name: str, value: Any) -> Any:
    if name not in PACKED or not np.size(value):
        return np.asarray(value).tolist()
    data = base64.b64encode(np.asarray(value, "<f4").tobytes()).decode()
    return PackedArray(shape=value.shape, data=data)


def read_stored_grading(text: str, column: str) -> StoredGrading:
    """Parse the stored JSON `text` of the label `column`. Raises InvalidInput for another version."""
    grader, again = f"the grader of the label {column!r}", "run `cbir grade fit` again"
    try:
        stored = StoredGrading.model_validate_json(text)
    except ValidationError as error:
        raise InvalidInput(f"{grader} cannot be read; {again}") from error
    if stored.format != FORMAT:
        raise InvalidInput(f"{grader} has format {stored.format}, this program reads {FORMAT}; {again}")
    return stored
