"""Plan of a study: question, sizes of the rounds, and settings of the ranker."""

import math
import secrets
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from cbir.errors import InvalidInput
from service.features.annotate.active import strategies
from service.features.annotate.study import study_rounds
from service.features.annotate.study.reference_images import MAX_REFERENCES, ReferenceImage
from service.features.annotate.study.study_files import write_study_file

FILE = "study.json"
NO_WEIGHTS = "none"  # or no encoder
MAX_GRADES = 12  # buttons beside each other
MAX_INSTRUCTIONS = 20_000  # characters


class StudyPlan(BaseModel):
    """Plan of a study.

    `start` is the fraction of the images in the pairs of round 1, `step` that of each later round, `overlap` the
    fraction of the pairs that every annotator judges. `strategy` selects the pairs. `encoder` is the one whose values
    the ranker learns from; None for pictures, of which `backbone`, `side` and `weights` are those of
    `BayesianRanker`. `epochs`, `steps` and `passes` are those of the ranker. `grades` are the ascending grades that
    people can give to single images, empty for none; `grade_names` are their names, empty for numbers only. `ask` is
    what the start page asks for. `where` has the conditions on the images of the study, empty for all images.
    `instructions` is Markdown. `study` is a random id.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str = Field("Which one is more severe?", min_length=1, max_length=200)
    strategy: str = strategies.DEFAULT
    rounds: int = Field(6, ge=1, le=1000)
    start: float = Field(0.2, gt=0, le=1)
    step: float = Field(0.05, gt=0, le=1)
    overlap: float = Field(0.1, ge=0, le=1)
    seed: int = Field(0, ge=0)
    encoder: str | None = None
    backbone: str = "small"
    side: int = Field(64, ge=32, le=1024)
    weights: str | None = None
    epochs: int | None = Field(None, ge=1)
    steps: int | None = Field(None, ge=0)
    passes: int = Field(30, ge=2)
    grades: tuple[float, ...] = Field((), max_length=MAX_GRADES)
    grade_names: tuple[str, ...] = Field((), max_length=MAX_GRADES)
    ask: Literal["pairs", "grades"] = "pairs"
    where: tuple[str, ...] = ()
    instructions: str = Field("", max_length=MAX_INSTRUCTIONS)
    references: tuple[ReferenceImage, ...] = Field((), max_length=MAX_REFERENCES)
    study: str = Field(default_factory=lambda: secrets.token_hex(8))

    @field_validator("weights", "encoder")
    @classmethod
    def _none_is_none(cls, value: str | None) -> str | None:
        return None if value == NO_WEIGHTS else value

    @field_validator("grades")
    @classmethod
    def _check_grades(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        is_ascending = all(low < high for low, high in pairwise(value))
        if len(value) == 1 or not is_ascending or not all(map(math.isfinite, value)):
            raise ValueError("grades must be two or more ascending numbers, such as 0,1,2,3,4")
        return value

    @field_validator("grade_names")
    @classmethod
    def _check_names(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if value and len(value) != len(info.data.get("grades", ())):
            raise ValueError("either every grade has a name or none")
        return value

    @field_validator("ask")
    @classmethod
    def _check_ask(cls, value: str, info: ValidationInfo) -> str:
        if value == "grades" and not info.data.get("grades", ()):
            raise ValueError("grades can be asked for only with --grades")
        return value

    def name_of(self, grade: float) -> str:
        """Return the name of `grade`, its number without names."""
        return self.grade_names[self.grades.index(grade)] if self.grade_names else f"{grade:g}"


def save_plan(folder: Path, options: dict[str, Any]) -> StudyPlan:
    """Resolve the plan of the study in `folder` with `options`, and store it. Raises as `resolve_plan`."""
    plan, path = resolve_plan(folder, options), folder / FILE
    if not path.exists() or plan != read_plan(folder):
        write_study_file(path, (plan.model_dump_json(indent=2) + "\n").encode())
    return plan


def resolve_plan(folder: Path, options: dict[str, Any]) -> StudyPlan:
    """Return the plan of the study in `folder`, updated by those `options` that are not None.

    Raises InvalidInput if a value or the stored plan is not valid.
    """
    stored: dict[str, Any] = read_plan(folder).model_dump() if (folder / FILE).exists() else {}
    if not stored and study_rounds.has_judgements(folder):
        raise InvalidInput(
            f"{folder / FILE}, the plan of the study, is missing, though there are judgements; restore it from a "
            "backup, or name another folder for a new study"
        )
    try:
        plan = StudyPlan(**stored | {name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][0]).replace("_", "-")
        raise InvalidInput(f"--{option}: {first['msg'][0].lower()}{first['msg'][1:]}") from error
    strategies.check_strategy(plan.strategy, plan.encoder)
    return plan


def read_plan(folder: Path) -> StudyPlan:
    """Read the plan of the study in `folder`; raise InvalidInput if it is missing or damaged."""
    try:
        return StudyPlan.model_validate_json((folder / FILE).read_bytes())
    except FileNotFoundError:
        command = f"`cbir annotate serve --study-dir {folder} --collection DIR`"
        raise InvalidInput(f"there is no study in {folder}; start one with {command}") from None
    except ValidationError as error:
        raise InvalidInput(
            f"{folder / FILE} is not a plan of a study; fix it, or use another folder"
        ) from error
