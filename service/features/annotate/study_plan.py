"""Plan of a study: question, sizes of the rounds, settings of the ranker, and reference images."""

import csv
import math
import secrets
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from cbir.errors import InvalidInput, NotFound
from cbir.learn.severity.stored_images import matching_records
from cbir.store import Collection
from cbir.store.records.filter_conditions import Condition
from service.features.annotate import study_files
from service.features.annotate.active import strategies
from service.features.annotate.active.judgement_journal import ImageId
from service.features.annotate.study_files import write_study_file

MAX_REFERENCES = 60
MAX_BYTES = 1_000_000  # of a csv
COLUMNS = ("image_id", "caption")
PER_VALUE = 2  # images of a label's value
Caption = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
FILE = "study.json"
NO_WEIGHTS = "none"  # or no encoder
MAX_GRADES = 12  # buttons beside each other
MAX_INSTRUCTIONS = 20_000  # characters


class ReferenceImage(BaseModel):
    """An image of the collection and what it stands for, such as a grade."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: ImageId = Field(description="Id of the image.", examples=["9f4c1d7a25e860b3c4a1f2d6e7380b95"])
    caption: Caption = Field(description="Text shown with the image.", examples=["Grade 3"])


def parse_reference(text: str) -> list[ReferenceImage]:
    """Parse IMAGE_ID=CAPTION, or read the csv file of that name with the columns image_id and caption."""
    image, separator, caption = text.partition("=")
    if separator:
        return [_reference(image.strip(), caption, text)]
    path = Path(text)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidInput(f"--reference: {path} has more than {MAX_BYTES:,} bytes")
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            if not set(COLUMNS) <= set(rows.fieldnames or ()):
                raise InvalidInput(
                    f"--reference: {path} needs the columns image_id and caption, separated by commas"
                )
            return [
                _reference(row["image_id"], row["caption"], f"line {rows.line_num} of {path}") for row in rows
            ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "not a csv in UTF-8"
        raise InvalidInput(f"--reference: {text} is neither IMAGE_ID=CAPTION nor a csv: {reason}") from error


def _reference(image: str | None, caption: str | None, source: str) -> ReferenceImage:
    try:
        return ReferenceImage.model_validate({"image": image, "caption": caption})
    except ValidationError as error:
        raise InvalidInput(
            f"--reference: {source} needs the id of an image and a caption of 1 to 200 characters"
        ) from error


def check_references(collection: Collection, references: Sequence[ReferenceImage]) -> None:
    """Raise InvalidInput if there are too many, or one is not in `collection`."""
    if len(references) > MAX_REFERENCES:
        raise InvalidInput(f"--reference: {len(references)} images; {MAX_REFERENCES} are allowed")
    for reference in references:
        try:
            collection.record(reference.image)
        except NotFound as error:
            raise InvalidInput(f"--reference: the collection has no image {reference.image}") from error


def references_of_label(
    collection: Collection, label: str, where: Sequence[Condition], seed: int
) -> list[ReferenceImage]:
    """Draw images of each value of a label, with the value as their caption.

    Parameters
    ----------
    collection : Collection
    label : str
        Key of the label, such as grade.
    where : sequence of Condition
        Conditions on the images.
    seed : int

    Returns
    -------
    list of ReferenceImage
        `PER_VALUE` images of each value, in the order of the values.

    Raises
    ------
    InvalidInput
        If no image has the label, or it has too many values.
    """
    by_value: dict[str, list[str]] = {}
    for _, record in matching_records(collection, where):
        if label in record.labels:
            by_value.setdefault(record.labels[label], []).append(record.image_id)
    if not 0 < len(by_value) <= MAX_REFERENCES // PER_VALUE:
        raise InvalidInput(
            f"--reference-label: the images have {len(by_value)} values of {label!r}; 1 to "
            f"{MAX_REFERENCES // PER_VALUE} are needed"
        )
    rng = np.random.default_rng(seed)
    return [
        ReferenceImage(image=image, caption=f"{label} {value}"[:200])
        for value in _ordered(by_value)
        for image in rng.permutation(sorted(by_value[value]))[:PER_VALUE].tolist()
    ]


def _ordered(values: Iterable[str]) -> list[str]:
    """Sort values: numbers by size, then texts."""

    def key(value: str) -> tuple[float, str]:
        try:
            return float(value), value
        except ValueError:
            return math.inf, value

    return sorted(values, key=key)


class StudyPlan(BaseModel):
    """Plan of a study.

    `start` is the fraction of the images in the pairs of round 1, `step` that of each later round, `overlap` the
    fraction of the pairs that every annotator judges. `strategy` selects the pairs. `encoder` is the one whose values
    the ranker learns from; None for pictures, of which `backbone`, `side` and `weights` are those of
    `BayesianRanker`. `epochs`, `steps` and `passes` are those of the ranker. `grades` are the ascending grades that
    people can give to single images, empty for none; `grade_names` are their names, empty for numbers only. `ask` is
    what the start page asks for. `where` has the conditions on the images of the study, empty for all images.
    `instructions` is Markdown. `study` is a random id. `collection` is the name of the collection, "" if an earlier
    version made the study.
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
    collection: str = ""

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
    if not stored and study_files.has_judgements(folder):
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
