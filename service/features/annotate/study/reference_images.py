"""Reference images of a study, shown beside the images to judge."""

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from cbir.errors import InvalidInput, NotFound
from cbir.learn.severity.stored_images import matching_records
from cbir.store import Collection
from cbir.store.records.filter_conditions import Condition
from service.features.annotate.active.judgement_journal import ImageId

MAX_REFERENCES = 60
MAX_BYTES = 1_000_000  # of a csv
COLUMNS = ("image_id", "caption")
PER_VALUE = 2  # images of a label's value

Caption = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


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
