"""What a study asks, of how many, and how its ranker learns."""

import secrets
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from cbir.active import strategies
from cbir.active.study.study_files import write_study_file
from cbir.errors import InvalidInput

FILE = "study.json"
NO_WEIGHTS = "none"


class StudyPlan(BaseModel):
    """start: share of the images in the pairs of round 1; step: of those chosen for each later one.

    strategy: that chooses them. overlap: share of pairs that every annotator is asked, to see how far they agree.
    backbone, side, weights, epochs, steps, passes: of `cbir.severity.bayesian_ranker.BayesianRanker`. study: a name of its
    own, by chance.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str = Field("Which one is more severe?", min_length=1, max_length=200)
    strategy: str = "variance"
    rounds: int = Field(6, ge=1, le=1000)
    start: float = Field(0.2, gt=0, le=1)
    step: float = Field(0.05, gt=0, le=1)
    overlap: float = Field(0.1, ge=0, le=1)
    seed: int = Field(0, ge=0)
    backbone: str = "small"
    side: int = Field(64, ge=32, le=1024)
    weights: str | None = None
    epochs: int = Field(20, ge=1)
    steps: int = Field(1000, ge=0)
    passes: int = Field(30, ge=2)
    study: str = Field(default_factory=lambda: secrets.token_hex(8))

    @field_validator("weights")
    @classmethod
    def _none_is_none(cls, weights: str | None) -> str | None:
        return None if weights == NO_WEIGHTS else weights


def save_plan(folder: Path, given: dict[str, Any]) -> StudyPlan:
    """The plan of the study in `folder`, as `meant` says it, and kept so."""
    plan, path = resolve_plan(folder, given), folder / FILE
    if not path.exists() or plan != read_plan(folder):
        write_study_file(path, (plan.model_dump_json(indent=2) + "\n").encode())
    return plan


def resolve_plan(folder: Path, given: dict[str, Any]) -> StudyPlan:
    """The plan of the study in `folder`: as it was begun, with what is `given` now (None is not).

    Raises InvalidInput for values that do not fit, and a file that is no plan.
    """
    known: dict[str, Any] = read_plan(folder).model_dump() if (folder / FILE).exists() else {}
    try:
        plan = StudyPlan(**known | {name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidInput(f"--{first['loc'][0]}: {first['msg'][0].lower()}{first['msg'][1:]}") from error
    strategies.strategy(plan.strategy)
    return plan


def read_plan(folder: Path) -> StudyPlan:
    """The plan of the study in `folder`; raises InvalidInput."""
    try:
        return StudyPlan.model_validate_json((folder / FILE).read_bytes())
    except FileNotFoundError:
        raise InvalidInput(
            f"there is no study in {folder}; `cbir annotate serve --study-dir {folder} --collection DIR` begins one"
        ) from None
    except ValidationError as error:
        raise InvalidInput(
            f"{folder / FILE} is no plan of a study; mend it, or take another folder"
        ) from error
