"""Pages of images in the order in which they were added, the other way round, or by the values of a label."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, func, or_, select

from cbir.errors import InvalidInput
from cbir.store.base.schema import as_number, images, labels
from cbir.store.records.dicom_instances import DicomScope
from cbir.store.records.filter_conditions import Condition
from cbir.store.records.label_facets import check_label_keys
from cbir.store.records.slice_rows import numbers_in_order

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
