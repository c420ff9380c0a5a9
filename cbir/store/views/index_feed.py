"""Changes for a vector index to take over: images added, changed and deleted since a position."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ColumnElement,
    Connection,
    LargeBinary,
    cast,
    false,
    func,
    not_,
    or_,
    select,
    text,
)

from cbir.errors import CollectionDamaged, NotFound
from cbir.store.base import metadata
from cbir.store.base.normalisation import Statistics
from cbir.store.base.profile import vector_format
from cbir.store.base.schema import changed_images, changes, images, vectors
from cbir.store.base.statements import is_postgresql
from cbir.store.postgresql.postgresql_database import Database, connect_once
from cbir.store.records.filter_conditions import Condition, DicomScope, PatientScope
from cbir.store.records.image_rows import last_number
from cbir.store.records.record_queries import RecordQueries
from cbir.store.records.records import Record
from cbir.store.safety.row_damage import (
    damaged_vectors,
    describe_damage,
    describe_not_finite,
    vectors_not_finite,
)
from cbir.store.snapshot.stored_snapshot import (
    ERASED_GENERATION,
    deleted_since,
    fingerprint,
    has_state,
    read_snapshot_info,
    read_state,
)

Numbers = NDArray[np.int64]
Floats = NDArray[np.float32]
Version = tuple[int, str]  # generation, and the name of the state of the database, see `read_state`

PAGE = 4096  # images read in one transaction


class FeedState(NamedTuple):
    """State of a collection as its indexes follow it.

    last_number, last_change: largest number of an image, deleted or not, and of an entry of the history.
    incomplete_change: entries up to this one may be missing from the history. purged_generation: deletions before it
    may be missing from the list of deleted images. fingerprint: of the statistics; None before an indexing run has
    ended. name: of the state of the database, see `read_state`.
    """

    generation: int
    name: str
    last_number: int
    last_change: int
    incomplete_change: int
    purged_generation: int
    fingerprint: str | None


class IndexFeed(RecordQueries):
    """Reads what a vector index takes over. Each call is a transaction of its own, so that none lasts long."""

    def __init__(self, folder: Path, engine: Database) -> None:
        self.folder, self._engine = folder, engine

    def generation(self) -> int:
        """Return the number of transactions that have changed the collection."""
        return int(self._read(metadata.required_value, "generation"))

    def version(self) -> Version:
        """Return what is different after each transaction that changes the collection, and after a restore."""
        with connect_once(self._engine) as connection:
            return read_state(connection)

    def erased_generation(self) -> int:
        """Return the generation in which patients were erased last; 0 if none were."""
        return int(self._read(metadata.find_value, ERASED_GENERATION) or 0)

    def has_state(self, name: str) -> bool:
        """Return whether the database is in the state `name` or a later one; not if it was restored to before."""
        return self._read(has_state, name)

    def state(self) -> FeedState:
        """Return the state; what is read after it is at least as new."""
        with self._engine.connect() as connection:
            generation, name = read_state(connection)  # first: others may write
            # PostgreSQL keeps what was deleted for ever.
            snapshot = None if is_postgresql(connection) else read_snapshot_info(connection, self.folder)
            statistics = metadata.find_value(connection, "statistics")
            return FeedState(
                generation,
                name,
                last_number(connection),
                connection.scalar(select(func.max(changes.c.change))) or 0,
                int(metadata.find_value(connection, metadata.INCOMPLETE_CHANGES) or 0),
                snapshot.generation if snapshot else 0,
                fingerprint(statistics) if statistics else None,
            )

    def statistics(self) -> tuple[str, Statistics]:
        """Return the statistics with their fingerprint; raises NotFound before an indexing run has ended."""
        with self._engine.connect() as connection:
            stored = metadata.find_value(connection, "statistics")
            statistics = metadata.read_statistics(connection)
        if stored is None or statistics is None:
            raise NotFound("the collection has no statistics yet; the end of an indexing run fits them")
        return fingerprint(stored), statistics

    def added(self, after: int, upto: int) -> tuple[dict[int, Record], Numbers, Floats]:
        """Return the next images with numbers above `after`, at most PAGE of them: records, numbers, raw vectors.

        Raises CollectionDamaged for vectors that no distance can be computed from, or that have changed.

        Parameters
        ----------
        after, upto : int
            Numbers of the images: above the one, up to the other.
        """
        numbers, raw = self.vectors_after(after, upto)
        return self.records(numbers.tolist()), numbers, raw

    def vectors_after(self, after: int, upto: int) -> tuple[Numbers, Floats]:
        """Return the next images as `added` does, without their records.

        Parameters
        ----------
        after, upto : int
            Numbers of the images: above the one, up to the other.
        """
        query = _vectors().where(vectors.c.number > after, vectors.c.number <= upto).limit(PAGE)
        with self._engine.connect() as connection:
            return self._decode(connection, connection.execute(query.order_by(vectors.c.number)).all())

    def vectors(self, numbers: Numbers) -> tuple[Numbers, Floats]:
        """Return the numbers of those images that exist, ascending, and their raw vectors (n, d)."""
        pages = [self._vectors_of(page) for page in pages_of(numbers)] or [self._vectors_of(numbers)]
        return np.concatenate([page[0] for page in pages]), np.concatenate([page[1] for page in pages])

    def _vectors_of(self, numbers: Numbers) -> tuple[Numbers, Floats]:
        with self._engine.connect() as connection:
            query = _vectors().where(_among(connection, vectors.c.number, numbers)).order_by(vectors.c.number)
            return self._decode(connection, connection.execute(query).all())

    def _decode(self, connection: Connection, rows: Sequence[Any]) -> tuple[Numbers, Floats]:
        stored_format = vector_format(metadata.read_profile(connection, self.folder))
        if damaged := damaged_vectors(rows, stored_format.size):
            raise CollectionDamaged(describe_damage(connection, "vectors", damaged))
        numbers = np.array([row[0] for row in rows], np.int64)
        raw = stored_format.decode([bytes(row[1]) for row in rows])
        if len(not_finite := numbers[vectors_not_finite(raw)]):
            raise CollectionDamaged(describe_not_finite(connection, not_finite.tolist()))
        return numbers, raw

    def changed(self, after: int, upto: int, since: int, most: int) -> Numbers:
        """Return the numbers of images whose labels or other attributes have changed, ascending and at most `most`.

        Parameters
        ----------
        after, upto : int
            Entries of the history: above the one, up to the other.
        since : int
            Only images with larger numbers.
        most : int
            Largest number of images.
        """
        entries = changes.c.change.between(after + 1, upto) & (changes.c.what == "labelled")
        ids = select(changed_images.c.image_id).join(changes, changes.c.change == changed_images.c.change)
        query = select(images.c.number).where(images.c.image_id.in_(ids.where(entries)))
        return self._numbers(query.where(images.c.number > since).order_by(images.c.number).limit(most))

    def deleted(self, since: int) -> Numbers:
        """Return the numbers of images deleted after the generation `since`; SQLite returns earlier ones too."""
        with self._engine.connect() as connection:
            return np.fromiter(connection.scalars(deleted_since(connection, since)), np.int64)

    def numbers_between(self, after: int, upto: int) -> Numbers:
        """Return the numbers of the images above `after` and up to `upto`, ascending."""
        query = select(images.c.number).where(images.c.number > after, images.c.number <= upto)
        return self._numbers(query.order_by(images.c.number))

    def count_between(self, after: int, upto: int) -> int:
        """Return how many images have numbers above `after` and up to `upto`."""
        with self._engine.connect() as connection:
            query = select(func.count()).select_from(images)
            return connection.scalar(query.where(images.c.number > after, images.c.number <= upto)) or 0

    def matching(
        self,
        conditions: Sequence[ColumnElement[bool]],
        among: Numbers | None = None,
        most: int | None = None,
    ) -> Numbers:
        """Return the numbers of the images for which all `conditions` hold, ascending.

        Parameters
        ----------
        conditions : sequence
            Of `scope_conditions`.
        among : (n,) int64, optional
            Only these images; None for all.
        most : int, optional
            Largest number of images.
        """
        query = select(images.c.number).where(*conditions).limit(most)
        if among is None:
            return np.sort(self._numbers(query))
        with self._engine.connect() as connection:
            feed_rows = [
                np.fromiter(
                    connection.scalars(query.where(_among(connection, images.c.number, page))), np.int64
                )
                for page in pages_of(among)
            ]
        return np.sort(np.concatenate([np.empty(0, np.int64), *feed_rows]))

    def _numbers(self, query: Any) -> Numbers:
        with connect_once(self._engine) as connection:
            return np.fromiter(connection.scalars(query), np.int64)


def scope_conditions(
    where: Sequence[Condition] = (),
    of_patients: Sequence[PatientScope] = (),
    without_patients: Sequence[str] = (),
    without_contents: Sequence[str] = (),
    outside: DicomScope | None = None,
) -> list[ColumnElement[bool]]:
    """Return the SQL conditions of the images in a scope.

    Parameters
    ----------
    where, of_patients, without_patients, without_contents, outside
        As of `cbir.store.index.port.IndexScope`.
    """
    conditions = [condition.matches() for condition in where]
    conditions += [patient.contains() for patient in of_patients]
    if without_patients:
        key = images.c.patient_key
        conditions.append(or_(key.is_(None), key.not_in(without_patients)))
    if without_contents:
        conditions.append(images.c.content_hash.not_in(without_contents))
    if outside:
        conditions.append(not_(outside.excludes()))
    return conditions


def exclusions(
    without_patients: Sequence[str] = (),
    without_contents: Sequence[str] = (),
    outside: DicomScope | None = None,
) -> list[ColumnElement[bool]]:
    """Return the SQL conditions of the images that each part of a scope leaves out.

    Parameters
    ----------
    without_patients, without_contents, outside
        As of `cbir.store.index.port.IndexScope`.
    """
    return [
        images.c.patient_key.in_(without_patients),
        images.c.content_hash.in_(without_contents),
        outside.excludes() if outside else false(),
    ]


def pages_of(numbers: Numbers) -> list[Numbers]:
    """Return numbers in ascending order, in pages of one statement each."""
    ascending = np.unique(numbers)
    return [ascending[start : start + PAGE] for start in range(0, len(ascending), PAGE)]


def _vectors() -> Any:
    return select(vectors.c.number, cast(vectors.c.vector, LargeBinary), vectors.c.checksum)


def _among(connection: Connection, column: Any, numbers: Numbers) -> ColumnElement[bool]:
    """Return the condition that a column has one of `numbers`; one parameter, since SQLAlchemy compiles each."""
    if connection.dialect.name == "sqlite":
        listed = text("SELECT value FROM json_each(:numbers)").bindparams(
            numbers=json.dumps(numbers.tolist())
        )
        return column.in_(listed)  # type: ignore[no-any-return]
    return column == func.any(numbers.tolist())  # type: ignore[no-any-return]
