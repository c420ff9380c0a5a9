"""What is learnt from grades, as JSON: read back without running anything that is in it."""

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
    """A fitted ranker and what a `GradeInterpolator` knows besides; the graded images stay in the collection.

    profile_hash: of the vectors it was learnt from. options: of the ranker. learned: its attributes that end with
    `_`, in lists. error: half the width of the interval that holds the share `coverage` of grades. range: of grades.
    images, patients: how many it was learnt from.
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
        """The ranker, as it was when it was stored."""
        made = grading.ranker(self.ranker, **self.options)
        for name, value in self.learned.items():
            if isinstance(value, list):
                setattr(made, name, np.asarray(value, np.int64 if name in INTEGERS else np.float64))
            else:
                setattr(made, name, value)
        with np.errstate(divide="ignore"):
            made.scale_ = 1.0 / made.scale_
        made.n_features_in_ = len(made.mean_)
        return made


def learned(ranker: RankingEstimator) -> dict[str, Any]:
    """What a fitted ranker has learnt; of the deviations their inverse, 0 for infinite ones."""
    check_is_fitted(ranker, "scale_")
    found = {
        name: value for name, value in vars(ranker).items() if name.endswith("_") and name != "n_features_in_"
    }
    found["scale_"] = 1.0 / ranker.scale_
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in found.items()}


def store(
    interpolator: GradeInterpolator, profile_hash: str, column: str, where: tuple[str, ...], images: int,
    patients: int, fitted: str,
) -> StoredGrading:  # fmt: skip
    """A fitted interpolator, whose coverage is not None, to keep."""
    ranker = interpolator.ranker_
    assert interpolator.coverage is not None
    assert interpolator.error_ is not None
    return StoredGrading(
        profile_hash=profile_hash,
        column=column,
        where=where,
        ranker=ranker.name,
        options=ranker.get_params(),
        learned=learned(ranker),
        smoothing=interpolator.smoothing,
        error=interpolator.error_,
        coverage=interpolator.coverage,
        range=interpolator.range_,
        images=images,
        patients=patients,
        fitted=fitted,
    )


def read(text: str, column: str) -> StoredGrading:
    """What was stored; raises InvalidInput where another version of the program wrote it."""
    try:
        found = StoredGrading.model_validate_json(text)
    except ValidationError as error:
        raise InvalidInput(
            f"what was learnt from the label {column!r} cannot be read; `cbir grade fit` learns it anew"
        ) from error
    if found.format != FORMAT:
        raise InvalidInput(
            f"what was learnt from the label {column!r} has format {found.format}, this program reads {FORMAT}; "
            "`cbir grade fit` learns it anew"
        )
    return found
