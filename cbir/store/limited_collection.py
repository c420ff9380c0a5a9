"""A collection limited to the images for which conditions hold; no query can return the others."""

import math
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    Boolean,
    ColumnElement,
    Dialect,
    FromClause,
    MetaData,
    event,
    exists,
    false,
    func,
    literal_column,
    select,
    text,
    true,
)
from sqlalchemy.dialects import sqlite

from cbir.errors import InvalidInput
from cbir.store.base import metadata, schema
from cbir.store.base.normalisation import Statistics
from cbir.store.base.profile import Profile
from cbir.store.base.statements import COLUMN, checksum_sql
from cbir.store.collection import Collection
from cbir.store.postgresql import postgresql_schema
from cbir.store.postgresql.postgresql_database import Database, PostgresqlDatabase
from cbir.store.records import image_counts
from cbir.store.records.filter_conditions import ABSENT, COMPARISONS, PRESENT, Condition
from cbir.store.records.image_counts import LabelKey, LabelValues
from cbir.store.records.record_rows import numbers_where
from cbir.store.views.collection_view import View
from cbir.store.views.view_cache import ViewCache

Counts = TypeVar("Counts")
ATTEMPTS = 3  # to count labels between two changes
SOUND = literal_column(f"condition.{COLUMN} = {checksum_sql(schema.labels, 'condition.')}", Boolean)
WHOLE_TABLES = ("meta", "tombstones")  # facts about the collection, not about images


class LimitedCollection(Collection):
    """Reading side of a collection in which only the images of its conditions exist.

    The limit is in the database connections: temporary views hide the rows of other images in every table, so a
    query cannot leave it out. Vectors are those of the whole collection, restricted to the rows of these images.
    """

    def __init__(self, whole: Collection, conditions: Sequence[Condition]) -> None:
        """Limit the open collection `whole` to the images for which all `conditions` hold."""
        self.folder = whole.folder
        self.fallback_for = whole.fallback_for
        self.limits = tuple(conditions)
        self._engine = _limited_database(whole, conditions)
        self._views: ViewCache = LimitedViews(whole._views, self._engine)
        self._joint = whole._joint
        self._key_check = whole._key_check
        self._numbers: tuple[int, NDArray[np.int64]] | None = None  # of the visible images, by generation

    @contextmanager
    def writer(self, who: str = "command line") -> NoReturn:
        """Refuse to write: what is not visible could be overwritten."""
        raise InvalidInput("a limited view of a collection cannot be written to")

    def statistics(self) -> Statistics | None:
        """Return None: the statistics summarise all images of the collection."""
        return None

    def info(self) -> dict[str, Any]:
        """Return the summary without the counts of all images."""
        return super().info() | {"statistics_fitted_on": None, "snapshot": None, "bytes_on_disk": 0}

    def list_label_keys(self, where: Sequence[Condition] = ()) -> list[LabelKey]:
        """Return the label keys of the visible images for which all conditions hold."""
        return self._count_labels(image_counts.read_label_keys, where)

    def list_label_values(
        self, key: str, where: Sequence[Condition] = (), offset: int = 0, limit: int = 100
    ) -> LabelValues:
        """Return a page of the values of a label of the visible images.

        Parameters
        ----------
        key, where, offset, limit
            As of a whole collection.
        """
        query = partial(image_counts.read_label_values, key=key, offset=offset, limit=limit)
        return self._count_labels(query, where)

    def _count_labels(self, query: Callable[..., Counts], where: Sequence[Condition]) -> Counts:
        """Count the labels of the visible images by their numbers, as long as no image changes meanwhile.

        To ask of every label whether its image is visible takes many times as long.
        """
        for _ in range(ATTEMPTS):
            generation, numbers = self._visible()
            if where:
                numbers = self.matching_numbers(where)
            with self._engine.connect() as connection:
                if int(metadata.required_value(connection, "generation")) == generation:
                    return query(connection, numbers=numbers)
        return self._read(query, where=where)

    def _visible(self) -> tuple[int, NDArray[np.int64]]:
        """Return the generation and the numbers of the visible images then, from memory if nothing has changed."""
        generation = self.generation()
        known = self._numbers
        if known is None or known[0] != generation:
            self._numbers = known = generation, self.matching_numbers(())
        return known

    def graded_labels(self) -> list[str]:
        """Return the labels with a grade model that visible images have."""
        visible = self.label_keys()
        return [label for label in super().graded_labels() if label in visible]


class LimitedViews(ViewCache):
    """Views of a whole collection, with the rows of the images that the connections of `database` can see."""

    def __init__(self, whole: ViewCache, database: Database) -> None:
        self._whole, self._limited = whole, database
        self._rows_lock = Lock()
        self._current: tuple[View, View] | None = None  # of the whole collection, and limited

    @property
    def profile(self) -> Profile:  # type: ignore[override]
        return self._whole.profile

    @property
    def problem(self) -> str | None:
        return self._whole.problem

    def reload_profile(self) -> None:
        """Read the profile of the whole collection again."""
        self._whole.reload_profile()

    def view(self) -> View:
        """Return the view of the latest generation, limited to the visible rows."""
        whole = self._whole.view()
        current = self._current
        if current and current[0] is whole:
            return current[1]
        with self._rows_lock:
            if self._current is None or self._current[0] is not whole:
                with self._limited.connect() as connection:
                    visible = whole.rows_of(numbers_where(connection))
                limited = replace(whole, rows=whole.select(visible, visible[:0]))
                self._current = whole, limited
            return self._current[1]


def _limited_database(whole: Collection, conditions: Sequence[Condition]) -> Database:
    if isinstance(whole._engine, PostgresqlDatabase):
        from sqlalchemy.dialects import postgresql

        dialect = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]  # leaves % as it is
        return whole._engine.limited(_view_statements(conditions, whole._engine.schema, dialect))
    engine = schema.connect(whole.folder)
    statements = _view_statements(conditions, "main", sqlite.dialect())

    @event.listens_for(engine, "connect")
    def _limit(connection: Any, _record: Any) -> None:
        for statement in statements:
            connection.execute(statement)
        connection.execute("PRAGMA query_only=ON")

    return engine


def check_conditions(conditions: Sequence[Condition]) -> None:
    """Raise InvalidInput if one of `conditions` cannot limit a collection."""
    for condition in conditions:
        if "\0" in condition.key + "".join(condition.values) or (
            condition.operator in COMPARISONS and not math.isfinite(float(condition.value))
        ):
            raise InvalidInput(
                f"the filter on the label {condition.key!r} has a value that cannot be compared with"
            )


def _view_statements(conditions: Sequence[Condition], schema_name: str, dialect: Dialect) -> list[str]:
    """Return statements that create a temporary view over each table, under its name.

    SQLite and PostgreSQL look up unqualified names among temporary views first.
    """
    everything = MetaData(schema=schema_name)
    whole = {table.name: table.to_metadata(everything) for table in schema.tables.tables.values()}
    in_sqlite = dialect.name == "sqlite"
    left_out = () if in_sqlite else tuple(table.name for table in postgresql_schema.LEFT_OUT)
    sound = SOUND if in_sqlite else true()  # PostgreSQL checks its pages
    statements = []
    for name, table in whole.items():
        if name in (*WHOLE_TABLES, *left_out):
            continue
        row = table.alias("shown")
        visible = (
            [
                _holds(condition, row.c.number, whole["labels"].alias("condition"), sound)
                for condition in conditions
            ]
            if "number" in row.c
            else [false()]
        )
        query = select(text("*")).select_from(row).where(*visible)
        compiled = query.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
        statements.append(f"CREATE TEMP VIEW {name} AS {compiled}")
    return statements


def _holds(
    condition: Condition, number: ColumnElement[int], labels: FromClause, sound: ColumnElement[bool]
) -> ColumnElement[bool]:
    """Return the SQL condition that the image `number` fulfils `condition`; faster for one image than a set.

    Labels that are not `sound`, which do not match their checksums, show no image.
    """
    having_key = exists().where(labels.c.number == number, labels.c.key == condition.key)
    if condition.operator in COMPARISONS:
        compare = COMPARISONS[condition.operator]
        return having_key.where(compare(func.as_number(labels.c.value), float(condition.value)), sound)
    if condition.operator == PRESENT:
        return having_key.where(sound)
    fitting = (
        having_key if condition.operator == ABSENT else having_key.where(labels.c.value.in_(condition.values))
    )
    if condition.operator == "=":
        return fitting.where(sound)
    if condition.operator not in (ABSENT, "!="):  # a limit must not be read as another one
        raise ValueError(f"no view for the operator {condition.operator}")
    damaged = exists().where(labels.c.number == number, ~sound)  # may have been the label
    return ~fitting & ~damaged
