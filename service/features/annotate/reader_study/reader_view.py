"""A study as one reader sees it: items in the reader's order, methods as left and right."""

from collections.abc import Sequence

from service.features.annotate.reader_study.messages import ReaderItems, SidedAnswer, SidedItem
from service.features.annotate.reader_study.reader_schedule import reader_schedule
from service.features.annotate.reader_study.tables import ReaderAnswer, ReaderStudy, StudyItem

SIDES = {-1: "left", 0: "equal", 1: "right"}  # by the preference of a reader with method a at the left


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
