"""Groups of images, of a patient, study, series or label, and pages of images: as added, by slices, or by a label."""

import operator
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, and_, case, func, or_, select

from cbir.errors import InvalidInput
from cbir.images.slice_order import PlacedSlice, SlicePlace, order_slices, slice_stacks, uid_key
from cbir.store.base.reserved_labels import SLICE_PLACE, as_number
from cbir.store.base.schema import images, labels
from cbir.store.base.statements import Statement
from cbir.store.records.filter_conditions import Condition, DicomScope
from cbir.store.records.image_counts import check_label_keys
from cbir.store.records.image_rows import ids_of
from cbir.system.threads import with_checkpoints

T = TypeVar("T")


def numbers_in_order(
    connection: Connection, scope: DicomScope, conditions: Sequence[ColumnElement[bool]] = ()
) -> list[int]:
    """Return the numbers of the images in a scope, series by series, in the order of `order_slices`.

    Parameters
    ----------
    connection : Connection
    scope : DicomScope
        Study, series or instance.
    conditions : sequence of SQL conditions
        Further ones; all must hold.
    """
    members = _placed_slices(connection, images.c.number, scope, conditions)
    return [
        members[series][index][0]
        for series in sorted(members, key=uid_key)
        for index in order_slices([each for _, each in members[series]])
    ]


def _placed_slices(
    connection: Connection,
    name: ColumnElement[T],
    scope: DicomScope,
    conditions: Sequence[ColumnElement[bool]] = (),
) -> dict[str, list[tuple[T, PlacedSlice]]]:
    """Return a column that names images, and their place, of those in a scope, by series."""
    placed = and_(labels.c.number == images.c.number, labels.c.key == SLICE_PLACE)
    columns = name, images.c.series, images.c.instance, images.c.frame, labels.c.value
    query = select(*columns).outerjoin_from(images, labels, placed).where(scope.contains(), *conditions)
    members: dict[str, list[tuple[T, PlacedSlice]]] = defaultdict(list)
    rows = connection.execute(query.order_by(images.c.number))
    for image, series, instance, frame, text in with_checkpoints(rows):
        location = SlicePlace.from_text(text) if text else SlicePlace()
        members[series].append((image, PlacedSlice(location, instance, frame or 0)))
    return members


@dataclass(frozen=True, slots=True)
class SliceFacts:
    """Place of an image in its series.

    number: among all its images in their order, from 1. count: of them. position: mm along the normal of its stack,
    None if unknown. stack: number of the parallel slices of one pass that it belongs to, from 1.
    """

    number: int
    count: int
    position: float | None
    stack: int


def read_slice_facts(connection: Connection, scope: DicomScope) -> dict[str, SliceFacts]:
    """Return the places of the images of one series by their ids, in their order."""
    facts: dict[str, SliceFacts] = {}
    for members in _placed_slices(connection, images.c.image_id, scope).values():
        for number, stack in enumerate(slice_stacks([each for _, each in members]), 1):
            for at, index in enumerate(stack.members):
                place = round(stack.positions[at], 3) if stack.positions else None
                facts[members[index][0]] = SliceFacts(len(facts) + 1, len(members), place, number)
    return facts


def middle_number(
    connection: Connection, scope: DicomScope, conditions: Sequence[ColumnElement[bool]] = ()
) -> int | None:
    """Return the number of the middle image of `numbers_in_order`, None without one; only its series is put in order.

    Parameters
    ----------
    connection, scope, conditions
        As of `numbers_in_order`.
    """
    counted = select(images.c.series, func.count()).where(scope.contains(), *conditions)
    counts: dict[str, int] = dict(connection.execute(counted.group_by(images.c.series)).all())
    left = sum(counts.values()) // 2
    for series in sorted(counts, key=uid_key):
        if left < counts[series]:
            of_series = [*conditions, images.c.series == series]
            return numbers_in_order(connection, scope, of_series)[left]
        left -= counts[series]
    return None


class DicomGroup(NamedTuple):
    """A study or a series. series: "" for a study. first: number of its first image. middle: id of its middle one."""

    study: str
    series: str
    images: int
    first: int
    middle: str


def read_groups(
    connection: Connection, level: str, before: int | None, limit: int, where: Sequence[Condition] = ()
) -> list[DicomGroup]:
    """Return the next studies or series, the one that was begun last first.

    Parameters
    ----------
    connection : Connection
    level : str
        "study" or "series".
    before : int or None
        `first` of the last group of the previous page.
    limit : int
        Largest number of groups.
    where : sequence of Condition
        Label conditions on the images that count; all must hold.
    """
    conditions = [images.c.study != "", *(condition.matches() for condition in where)]
    columns = [images.c.study] if level == "study" else [images.c.study, images.c.series]
    first = func.min(images.c.number)
    query = select(*columns, func.count(), first).where(*conditions).group_by(*columns)
    if before is not None:
        query = query.having(first < before)
    groups = []
    for study, *series, number, start in connection.execute(query.order_by(first.desc()).limit(limit)):
        scope = DicomScope(study, *series)
        middle = ids_of(connection, [middle_number(connection, scope, conditions)])
        groups.append(DicomGroup(study, scope.series, number, start, next(iter(middle), "")))
    return groups


COLUMNS = {"patient": "patient_key", "study": "study", "series": "series"}

_LABEL_PREFIX = "label:"

_BY_COLUMN = {
    name: Statement(f"SELECT number, {column} FROM images WHERE number IN ? AND {column} <> ''")
    for name, column in COLUMNS.items()
}

_BY_LABEL = Statement("SELECT number, value FROM labels WHERE number IN ? AND key = ?")


def read_group_keys(connection: Connection, numbers: Sequence[int], by: str) -> dict[int, str]:
    """Return the key of the group of each image that has one.

    Parameters
    ----------
    connection : Connection
    numbers : sequence of int
        Numbers of images.
    by : str
        "patient" for patient keys, "study" or "series" for UIDs, or the key of a label, with "label:" before it where
        it is one of these words.

    Raises
    ------
    InvalidInput
        If no image has the label.
    """
    listed = list(numbers)
    if by in COLUMNS:
        return dict(map(tuple, _BY_COLUMN[by].run(connection, listed)))
    key = by.removeprefix(_LABEL_PREFIX)
    check_label_keys(connection, [key])
    return dict(map(tuple, _BY_LABEL.run(connection, listed, key)))


OLDEST, NEWEST, SLICES = "oldest", "newest", "slices"

LABEL, DESCENDING = "label:", "-"

NUMBERS, TEXT, MISSING = 0, 1, 2  # the values of a label in this order, in both directions


@dataclass(frozen=True)
class Order:
    """Order of images.

    label: key whose values order them, "" for the order in which they were added. slices: the order of slices.
    """

    descending: bool = False
    label: str = ""
    slices: bool = False


@dataclass(frozen=True)
class Position:
    """An image, by its number, as the end of a page.

    value: of the label that orders the images, or its place among the slices; None without it.
    """

    number: int
    value: str | None = None


def parse_order(text: str) -> Order:
    """Parse `oldest`, `newest`, `slices`, `label:KEY`, or `-label:KEY` for descending values; raises InvalidInput."""
    if text == SLICES:
        return Order(slices=True)
    if text in (OLDEST, NEWEST):
        return Order(text == NEWEST)
    key = text.removeprefix(DESCENDING)
    if not key.startswith(LABEL) or key == LABEL:
        raise InvalidInput(
            f"sort: '{text}' is none of {OLDEST}, {NEWEST}, {SLICES}, {LABEL}KEY and {DESCENDING}{LABEL}KEY"
        )
    return Order(text.startswith(DESCENDING), key.removeprefix(LABEL))


def read_positions(
    connection: Connection,
    order: Order,
    after: Position | None,
    limit: int,
    where: Sequence[Condition] = (),
    scope: DicomScope | None = None,
) -> list[Position]:
    """Return the positions of the next images.

    Values that are numbers come first, in the order of the numbers, then other values, then images without the label.
    Images with equal values come in the order in which they were added.

    Parameters
    ----------
    connection : Connection
    order : Order
    after : Position or None
        End of the previous page. The image may be deleted by now, or its label changed.
    limit : int
        Largest number of images.
    where : sequence of Condition
        Label conditions; all must hold.
    scope : DicomScope, optional
        Study or series that the images must be in.

    Raises
    ------
    InvalidInput
        If no image has the label, or slices are to be ordered without a scope.
    """
    if order.slices:
        return _slice_positions(connection, after, limit, where, scope)
    conditions = [condition.matches() for condition in where] + ([scope.contains()] if scope else [])
    if not order.label:
        number = images.c.number
        query = select(number).where(*conditions).order_by(number.desc() if order.descending else number)
        if after:
            query = query.where(number < after.number if order.descending else number > after.number)
        return [Position(found) for found in connection.scalars(query.limit(limit))]
    check_label_keys(connection, [order.label])
    rows = connection.execute(_by_label(order, after, conditions).limit(limit))
    return [Position(row.number, row.value) for row in rows]


def _slice_positions(
    connection: Connection,
    after: Position | None,
    limit: int,
    where: Sequence[Condition],
    scope: DicomScope | None,
) -> list[Position]:
    if scope is None:
        raise InvalidInput(f"sort: {SLICES} are those of a study or series; name its study too")
    numbers = numbers_in_order(connection, scope, [condition.matches() for condition in where])
    start = 0
    if after and after.number in numbers:
        start = numbers.index(after.number) + 1
    elif after:  # deleted meanwhile: the next one has its place
        rank = after.value or ""
        start = int(rank) if rank.isdecimal() and len(rank) < 10 else len(numbers)
    return [Position(numbers[at], str(at)) for at in range(start, min(start + limit, len(numbers)))]


def _by_label(order: Order, after: Position | None, conditions: Sequence[ColumnElement[bool]]) -> Select[Any]:
    has_key = and_(labels.c.number == images.c.number, labels.c.key == order.label)
    amount = case((labels.c.value.is_not(None), func.as_number(labels.c.value)))
    values = (
        select(images.c.number, labels.c.value, amount.label("amount"))
        .outerjoin_from(images, labels, has_key)
        .where(*conditions)
        .subquery()
    )
    kind = case((values.c.value.is_(None), MISSING), (values.c.amount.is_(None), TEXT), else_=NUMBERS)
    columns = values.c.amount, values.c.value
    keys = [column.desc() if order.descending else column for column in columns]
    query = select(values.c.number, values.c.value).order_by(kind, *keys, values.c.number)
    return query.where(_follows(kind, values.c, order, after)) if after else query


def _follows(kind: ColumnElement[int], columns: Any, order: Order, after: Position) -> ColumnElement[bool]:
    """Return the SQL condition of the images that follow a position."""
    beyond: Callable[[Any, Any], ColumnElement[bool]] = operator.lt if order.descending else operator.gt
    amount = None if after.value is None else as_number(after.value)
    own_kind = MISSING if after.value is None else TEXT if amount is None else NUMBERS
    later: ColumnElement[bool] = columns.number > after.number
    if own_kind != MISSING:
        later = or_(beyond(columns.value, after.value), and_(columns.value == after.value, later))
    if own_kind == NUMBERS:
        later = or_(beyond(columns.amount, amount), and_(columns.amount == amount, later))
    return or_(kind > own_kind, and_(kind == own_kind, later))
