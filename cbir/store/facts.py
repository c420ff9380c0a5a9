"""Single facts about a collection, kept in the table `meta`."""

from sqlalchemy import Connection, select
from sqlalchemy.dialects.sqlite import insert

from cbir.errors import CollectionDamaged
from cbir.store.schema import meta
from cbir.store.snapshot import SnapshotInfo
from cbir.store.statistics import Statistics

COUNT_UP = "UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'generation'"


def need(connection: Connection, key: str) -> str:
    """A fact that every collection has; raises CollectionDamaged without it."""
    value = connection.scalar(select(meta.c.value).where(meta.c.key == key))
    if value is None:
        raise CollectionDamaged(f"the collection's database does not say its {key}")
    return value


def store(connection: Connection, key: str, value: str) -> None:
    """Set a fact."""
    adding = insert(meta).values(key=key, value=value)
    connection.execute(adding.on_conflict_do_update(index_elements=["key"], set_={"value": value}))


def count_up(connection: Connection) -> None:
    """Raise the generation, which tells readers that something changed."""
    if connection.exec_driver_sql(COUNT_UP).rowcount == 0:
        need(connection, "generation")  # says what is wrong


def statistics(connection: Connection) -> Statistics | None:
    """The statistics that vectors are normalised with; None until an indexing run has ended."""
    text = connection.scalar(select(meta.c.value).where(meta.c.key == "statistics"))
    return Statistics.from_json(text) if text else None


def snapshot(connection: Connection) -> SnapshotInfo | None:
    """What the snapshot should be; None where none was made."""
    text = connection.scalar(select(meta.c.value).where(meta.c.key == "snapshot"))
    return SnapshotInfo.model_validate_json(text) if text else None
