"""Queries for labels; each function works within the transaction of its connection."""

from sqlalchemy import Connection, func, select

from cbir.store.schema import images, labels


def label_keys(connection: Connection) -> dict[str, int]:
    """Return every label key with the number of images that have it."""
    query = select(labels.c.key, func.count()).group_by(labels.c.key).order_by(labels.c.key)
    return {key: count for key, count in connection.execute(query)}  # noqa: C416 - rows are no pairs to mypy


def label_values(connection: Connection, key: str, limit: int) -> list[tuple[str, int]]:
    """Return values of a label with their image counts, the most frequent first.

    Parameters
    ----------
    connection : Connection
    key : str
        Label key.
    limit : int
        Largest number of values.
    """
    count = func.count()
    query = select(labels.c.value, count).where(labels.c.key == key).group_by(labels.c.value)
    rows = connection.execute(query.order_by(count.desc(), labels.c.value).limit(limit))
    return [(value, number) for value, number in rows]


def labels_by_number(connection: Connection, key: str) -> dict[int, str]:
    """Return the value of a label for every image that has it, by number."""
    query = select(labels.c.number, labels.c.value).where(labels.c.key == key)
    return {row.number: row.value for row in connection.execute(query)}


def numeric_labels(connection: Connection, key: str) -> dict[str, float]:
    """Return the value of a label for every image where it is a finite number, by image id."""
    query = select(images.c.image_id, func.as_number(labels.c.value)).join(labels).where(labels.c.key == key)
    return {image_id: value for image_id, value in connection.execute(query) if value is not None}
