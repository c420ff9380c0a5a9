"""Images of a study, series or instance in the order of their slices."""

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, func, select

from cbir.images.slice_order import PlacedSlice, SlicePlace, order_slices, uid_key
from cbir.store.base.schema import images, labels
from cbir.store.base.stored_place import SLICE_PLACE
from cbir.store.records.dicom_instances import DicomScope
from cbir.system.cancellation import with_checkpoints


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
    placed = and_(labels.c.number == images.c.number, labels.c.key == SLICE_PLACE)
    columns = images.c.number, images.c.series, images.c.instance, images.c.frame, labels.c.value
    query = select(*columns).outerjoin_from(images, labels, placed).where(scope.contains(), *conditions)
    members: dict[str, list[tuple[int, PlacedSlice]]] = defaultdict(list)
    for number, series, instance, frame, text in with_checkpoints(
        connection.execute(query.order_by(images.c.number))
    ):
        location = SlicePlace.from_text(text) if text else SlicePlace()
        members[series].append((number, PlacedSlice(location, instance, frame or 0)))
    return [
        members[series][index][0]
        for series in sorted(members, key=uid_key)
        for index in order_slices([each for _, each in members[series]])
    ]


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
