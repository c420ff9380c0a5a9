"""Fitted graders as JSON, which loads without executing anything in it."""

from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from sklearn.utils.validation import check_is_fitted

from cbir import grading
from cbir.errors import InvalidInput
from cbir.grading.graded_list import Smoothing
from cbir.grading.interpolation import GradeInterpolator
from cbir.models.linear.ranking_estimator import RankingEstimator

INTEGERS = ("features_",)
FORMAT = 1


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
        Its attributes that end with `_`, as lists.
    smoothing : int or "auto"
        See `GradedList`.
    error, coverage : float
        Half the width of the interval, which covers this share of the grades.
    range : (float, float)
        Lowest and highest grade.
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
    learned: dict[str, list[float] | list[list[float]] | float]
    smoothing: Smoothing
    error: float
    coverage: float
    range: tuple[float, float]
    images: int
    patients: int
    fitted: str

    def fitted_ranker(self) -> RankingEstimator:
        """Rebuild the fitted ranker."""
        ranker = grading.make_ranker(self.ranker, **self.options)
        for name, value in self.learned.items():
            if isinstance(value, list):
                setattr(ranker, name, np.asarray(value, np.int64 if name in INTEGERS else np.float64))
            else:
                setattr(ranker, name, value)
        with np.errstate(divide="ignore"):
            ranker.scale_ = 1.0 / ranker.scale_
        ranker.n_features_in_ = len(ranker.mean_)
        return ranker


def fitted_attributes(ranker: RankingEstimator) -> dict[str, Any]:
    """Return the fitted attributes of `ranker`; deviations as their inverse, 0 for infinite ones."""
    check_is_fitted(ranker, "scale_")
    attributes = {
        name: value for name, value in vars(ranker).items() if name.endswith("_") and name != "n_features_in_"
    }
    attributes["scale_"] = 1.0 / ranker.scale_
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in attributes.items()
    }


def store_grading(
    interpolator: GradeInterpolator, profile_hash: str, column: str, where: tuple[str, ...], images: int,
    patients: int, fitted: str,
) -> StoredGrading:  # fmt: skip
    """Convert a fitted interpolator for storage.

    Parameters
    ----------
    interpolator : GradeInterpolator
        Fitted, with a coverage.
    profile_hash, column, where, images, patients, fitted
        See `StoredGrading`.
    """
    ranker = interpolator.ranker_
    assert interpolator.coverage is not None
    assert interpolator.error_ is not None
    return StoredGrading(
        profile_hash=profile_hash,
        column=column,
        where=where,
        ranker=ranker.name,
        options=ranker.get_params(),
        learned=fitted_attributes(ranker),
        smoothing=interpolator.smoothing,
        error=interpolator.error_,
        coverage=interpolator.coverage,
        range=interpolator.range_,
        images=images,
        patients=patients,
        fitted=fitted,
    )


def read_stored_grading(text: str, column: str) -> StoredGrading:
    """Parse the stored JSON `text` of the label `column`. Raises InvalidInput for another version."""
    try:
        stored = StoredGrading.model_validate_json(text)
    except ValidationError as error:
        raise InvalidInput(
            f"the grader of the label {column!r} cannot be read; run `cbir grade fit` again"
        ) from error
    if stored.format != FORMAT:
        raise InvalidInput(
            f"the grader of the label {column!r} has format {stored.format}, this program reads {FORMAT}; "
            "run `cbir grade fit` again"
        )
    return stored
