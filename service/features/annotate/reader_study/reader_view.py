"""A study as one reader sees it: items in the reader's order, sides only, never which method is where."""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from service.features.annotate.reader_study.tables import ReaderAnswer, ReaderStudy, StudyItem

MAX_NOTE = 2000
MAX_SECONDS = 24 * 3600.0
Useful = Annotated[int, Field(ge=1, le=5)]
Side = Literal["left", "equal", "right"]
SIDES = {-1: "left", 0: "equal", 1: "right"}  # by the preference of a reader with method a at the left


class ReaderStart(BaseModel):
    """A reader opens the study; `reader` is needed where people do not log in."""

    model_config = ConfigDict(extra="forbid")

    reader: Annotated[int | None, Field(ge=1)] = None


class SidedAnswer(ReaderStart):
    """Answer to an item, as the reader sees it."""

    item: Annotated[int, Field(ge=1)]
    useful_left: Useful
    useful_right: Useful
    better: Side
    relevant: Annotated[dict[Annotated[str, Field(max_length=64)], bool], Field(max_length=100)] = {}
    note: Annotated[str, Field(max_length=MAX_NOTE)] = ""
    seconds: Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)] = 0.0


class SidedItem(BaseModel):
    """Item of a study in the order of its reader; image ids are "-" where a patient was erased."""

    item: int
    query: str
    left: list[str]
    right: list[str]
    answer: SidedAnswer | None


class ReaderItems(BaseModel):
    """A study as one reader sees it."""

    reader: int
    collection: str
    judge_images: bool
    items: list[SidedItem]


def reader_schedule(seed: int, reader: int, count: int) -> list[tuple[int, bool]]:
    """Return the positions of the items in the order of a reader, and whether method a is at the left.

    Order and sides are random, and each method is at the left in half of the items, or one more. Same arguments, same
    schedule, so that a reader can go on after a break.

    Parameters
    ----------
    seed : int
        Of the study.
    reader : int
        Number of the reader, from 1.
    count : int
        Number of items.
    """
    generator = np.random.default_rng([seed, reader])
    order = generator.permutation(count).tolist()
    first = int(generator.integers(2))  # which method has one more of an odd number
    sides = generator.permutation(np.arange(first, first + count) % 2 == 0).tolist()
    return list(zip(order, sides, strict=True))


def reader_items(
    study: ReaderStudy, reader: int, items: Sequence[StudyItem], answers: Sequence[ReaderAnswer]
) -> ReaderItems:
    """Return the study for a reader.

    Parameters
    ----------
    study : ReaderStudy
    reader : int
        Number of the reader, from 1.
    items : sequence of StudyItem
        All items.
    answers : sequence of ReaderAnswer
        Those of the reader.
    """
    by_item = {answer.item: answer for answer in answers}
    sided = []
    for each, a_left in _scheduled(study, reader, items):
        left, right = (each.a, each.b) if a_left else (each.b, each.a)
        answer = by_item.get(each.item)
        sided.append(
            SidedItem(
                item=each.item, query=each.query, left=list(left), right=list(right),
                answer=_to_sides(answer) if answer else None,
            )
        )  # fmt: skip
    return ReaderItems(
        reader=reader, collection=study.collection, judge_images=study.judge_images, items=sided
    )


def _scheduled(study: ReaderStudy, reader: int, items: Sequence[StudyItem]) -> list[tuple[StudyItem, bool]]:
    """Return the items in the reader's order, and whether method a is at the left.

    Items are numbered from 1 to the size of the study; those of erased patients are missing.
    """
    by_number = {each.item: each for each in items}
    schedule = reader_schedule(study.seed, reader, study.size)
    return [(by_number[row + 1], a_left) for row, a_left in schedule if row + 1 in by_number]


def _to_sides(answer: ReaderAnswer) -> SidedAnswer:
    left, right = answer.useful_a, answer.useful_b
    sign = 1 if answer.a_left else -1
    return SidedAnswer.model_validate(
        {
            "item": answer.item,
            "useful_left": left if answer.a_left else right,
            "useful_right": right if answer.a_left else left,
            "better": SIDES[sign * answer.preference],
            "relevant": answer.relevant,
            "note": answer.note,
            "seconds": answer.seconds,
        }
    )


def from_sides(
    study: ReaderStudy, reader: int, items: Sequence[StudyItem], sided: SidedAnswer
) -> ReaderAnswer | None:
    """Return an answer by methods; None if the study has no such item.

    Parameters
    ----------
    study : ReaderStudy
    reader : int
        Number of the reader, from 1.
    items : sequence of StudyItem
        All items.
    sided : SidedAnswer
        Judgements of images that are in neither list are dropped.
    """
    for each, a_left in _scheduled(study, reader, items):
        if each.item == sided.item:
            images = {*each.a, *each.b}
            useful = (sided.useful_left, sided.useful_right)
            preference = {side: value for value, side in SIDES.items()}[sided.better]
            return ReaderAnswer(
                reader, each.item, useful[not a_left], useful[a_left], preference if a_left else -preference, a_left,
                {image: value for image, value in sided.relevant.items() if image in images and study.judge_images},
                sided.note, sided.seconds,
            )  # fmt: skip
    return None
