"""Changes of labels, with their entries in the history, within the transaction of a connection."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, delete, select

from cbir.store.base import metadata
from cbir.store.base.checksums import values_checksum
from cbir.store.base.schema import images, labels
from cbir.store.records import change_history
from cbir.store.records.image_rows import batches, ids_of, insert_labels, rows_matching

DAMAGED = object()  # label that differs from all values, so that it is written again


def set_one_label(connection: Connection, key: str, values: Mapping[str, str], who: str) -> int:
    """Set one label of many images by id and return how many changed; deleted images are skipped.

    Parameters
    ----------
    connection : Connection
    key : str
        Key of the label.
    values : mapping
        New values by image id.
    who : str
        Name in the history.
    """
    columns = images.c.image_id, images.c.number
    numbers = dict(rows_matching(connection, columns, images.c.image_id, values))
    query = select(labels.c.number, labels.c.value).where(labels.c.key == key)
    current = dict(connection.execute(query).all())
    new = {image_id: n for image_id, n in numbers.items() if current.get(n) != values[image_id]}
    for batch in batches(list(new.values())):
        connection.execute(delete(labels).where(labels.c.key == key, labels.c.number.in_(batch)))
    if new:
        insert_labels(connection, [(key, values[image_id], number) for image_id, number in new.items()])
        change_history.record_change(connection, who, "labelled", len(new), list(new))
        metadata.bump_generation(connection)
    return len(new)


def change_labels(
    connection: Connection, numbers: Sequence[int], changed: Mapping[str, str | None], who: str
) -> bool:
    """Give images these labels, and take those away that are None; return whether anything changed.

    Parameters
    ----------
    connection : Connection
    numbers : sequence of int
        Numbers of the images.
    changed : mapping
        New values by key.
    who : str
        Name in the history.
    """
    columns = labels.c.number, labels.c.key, labels.c.value, labels.c.checksum
    rows = connection.execute(select(*columns).where(labels.c.number.in_(numbers)))
    current = {
        (number, key): value if checksum == values_checksum(key, value, number) else DAMAGED
        for number, key, value, checksum in rows
    }
    new = [
        (key, value, number)
        for number in numbers
        for key, value in changed.items()
        if current.get((number, key)) != value
    ]
    if not new:
        return False
    for key, _, number in new:
        connection.execute(delete(labels).where((labels.c.number == number) & (labels.c.key == key)))
    insert_labels(connection, [(key, value, number) for key, value, number in new if value is not None])
    ids = ids_of(connection, [number for _, _, number in new])
    change_history.record_change(connection, who, "labelled", len(ids), ids)
    metadata.bump_generation(connection)
    return True
