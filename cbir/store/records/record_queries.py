"""Queries for the records, vectors and labels of a collection's images, each a transaction of its own."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, func, select

from cbir.errors import CollectionDamaged, NotFound
from cbir.store.base.damage import REPAIR
from cbir.store.base.reserved_labels import require_other_keys
from cbir.store.base.schema import images, labels, thumbnails
from cbir.store.base.statements import Statement, row_checksum, vector_checksum
from cbir.store.postgresql.postgresql_database import Database, connect_once
from cbir.store.records import dicom_instances, image_counts, image_order, record_rows
from cbir.store.records.filter_conditions import ABSENT, Condition, DicomScope, parse_filters
from cbir.store.records.image_counts import LabelKey, LabelValues
from cbir.store.records.image_order import Order, Position, SliceFacts, numbers_in_order
from cbir.store.records.image_rows import batches
from cbir.store.records.record_rows import (
    bounded_records,
    numbers_by_id,
    numbers_where,
    records_by_number,
    records_of_query,
    records_with_id,
)
from cbir.store.records.records import Record

PAGE = 2000  # records that `iterate` reads in one transaction

# Constant statements, run by the driver for every search: SQLAlchemy takes several times as long to build them.
_VECTOR_BY_ID = Statement(
    "SELECT vectors.number, vector, vectors.checksum FROM vectors JOIN images ON images.number = vectors.number "
    "WHERE image_id = ?"
)
_FIRST_SHOWING = Statement("SELECT image_id FROM images WHERE content_hash = ? ORDER BY number LIMIT 1")

P = ParamSpec("P")
T = TypeVar("T")


def query_method(
    query: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate["RecordQueries", P], T]:
    """Return the method that calls `query`, which explains it, with a connection, in a transaction."""

    @wraps(query)
    def read(self: "RecordQueries", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._read(query, *args, **kwargs)

    return read


class RecordQueries:
    """Reads images by id, number, content, DICOM UIDs and labels."""

    _engine: Database

    def _read(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `query` with a connection, in a transaction."""
        with self._engine.connect() as connection:
            return query(connection, *args, **kwargs)

    def _rows(self, query: Select[Any]) -> Sequence[Any]:
        with connect_once(self._engine) as connection:
            return connection.execute(query).all()

    def __len__(self) -> int:
        return int(self._rows(select(func.count()).select_from(images))[0][0])

    # Records

    def record(self, image_id: str) -> Record:
        """Return the record of one image; raises NotFound."""
        with connect_once(self._engine) as connection:
            records = records_with_id(connection, image_id)
        if not records:
            raise _not_found(image_id)
        return next(iter(records.values()))

    def records(self, numbers: Sequence[int]) -> dict[int, Record]:
        """Return records by image number; deleted images are left out."""
        with connect_once(self._engine) as connection:
            return records_by_number(connection, numbers)

    def bounded_records(self, numbers: Sequence[int], label_bytes: int) -> tuple[dict[int, Record], set[int]]:
        """Return records by image number, and the numbers of those whose labels were not read.

        That begins where the images before, in the order of `numbers`, have more than `label_bytes` of labels.
        """
        with connect_once(self._engine) as connection:
            return bounded_records(connection, numbers, label_bytes)

    def records_by_id(self, image_ids: Iterable[str]) -> dict[str, Record]:
        """Return records by image id, in the order of their numbers; unknown ids are left out."""
        with self._engine.connect() as connection:
            numbers = sorted(numbers_by_id(connection, image_ids).values())
            return {record.image_id: record for record in records_by_number(connection, numbers).values()}

    def bounded_records_by_id(
        self, image_ids: Iterable[str], label_bytes: int
    ) -> tuple[dict[str, Record], set[str]]:
        """Return records by image id as `records_by_id`, and the ids of those whose labels were not read.

        That begins where the images before, in the order of `image_ids`, have more than `label_bytes` of labels.
        """
        ids = list(dict.fromkeys(image_ids))
        with self._engine.connect() as connection:
            number_of = numbers_by_id(connection, ids)
            numbers = [number_of[image_id] for image_id in ids if image_id in number_of]
            records, bare = bounded_records(connection, numbers, label_bytes)
            return (
                {record.image_id: record for record in records.values()},
                {records[number].image_id for number in bare},
            )

    def slice_facts(self, scope: DicomScope) -> dict[str, SliceFacts]:
        """Return the places of the images of one series by their ids, in their order."""
        return self._read(image_order.read_slice_facts, scope)

    def count_by_patient(self, keys: Sequence[str]) -> dict[str, int]:
        """Return the number of images of each patient, by key."""
        return self._read(image_counts.count_by_patient, keys)

    def iterate(self, where: Sequence[Condition] = ()) -> Iterator[tuple[int, Record]]:
        """Yield number and record of every image for which `where` holds, in the order in which they were added."""
        last = 0
        while page := self.page(
            last, PAGE, where
        ):  # a transaction each: a slow consumer would hold up checkpoints
            yield from page
            last = page[-1][0]

    def page(
        self, after: int = 0, limit: int = 100, where: Sequence[Condition] = ()
    ) -> list[tuple[int, Record]]:
        """Return numbers and records of the next images, in the order in which they were added.

        Parameters
        ----------
        after : int
            Only images with larger numbers.
        limit : int
            Largest number of records.
        where : sequence of Condition
            Label conditions; all must hold.
        """
        query = select(images).where(images.c.number > after, *(condition.matches() for condition in where))
        return list(self._read(records_of_query, query.order_by(images.c.number).limit(limit)).items())

    def sorted_page(
        self,
        order: Order,
        after: Position | None,
        limit: int,
        where: Sequence[Condition] = (),
        scope: DicomScope | None = None,
        label_bytes: int | None = None,
    ) -> list[tuple[Position, Record]]:
        """Return positions and records of the next images in an order: see `image_order.read_positions`.

        Parameters
        ----------
        order, after, limit, where, scope
            As of `read_positions`.
        label_bytes : int, optional
            The page ends, after some images more, where its images have more bytes of labels.
        """
        with self._engine.connect() as connection:
            positions = image_order.read_positions(connection, order, after, limit, where, scope)
            numbers, bare = [position.number for position in positions], set[int]()
            if label_bytes is None:
                records = records_by_number(connection, numbers)
            else:
                records, bare = bounded_records(connection, numbers, label_bytes)
        return [(position, records[position.number]) for position in positions if position.number not in bare]

    def sorted_numbers(self, order: Order, limit: int, where: Sequence[Condition] = ()) -> list[int]:
        """Return the numbers of the first `limit` images for which `where` holds, in an `order`."""
        return [
            position.number for position in self._read(image_order.read_positions, order, None, limit, where)
        ]

    def count(self, where: Sequence[Condition] = ()) -> int:
        """Return the number of images for which all conditions hold."""
        matching = (condition.matches() for condition in where)
        return int(self._rows(select(func.count()).select_from(images).where(*matching))[0][0])

    def thumbnail(self, image_id: str) -> bytes | None:
        """Return the stored JPEG of an uploaded image; None if there is none. Raises CollectionDamaged."""
        for row in self._rows(select(thumbnails).join(images).where(images.c.image_id == image_id)):
            if row.checksum != row_checksum(b"%d" % row.number, row.picture):
                raise CollectionDamaged(f"the thumbnail of {image_id} does not match its checksum; {REPAIR}")
            return bytes(row.picture)
        return None

    def ids_with_thumbnail(self) -> set[str]:
        """Return the ids of the images that have a thumbnail."""
        return {row.image_id for row in self._rows(select(images.c.image_id).join(thumbnails))}

    def stored_vector(self, image_id: str) -> bytes:
        """Return the raw vector of one image as it is stored; raises NotFound, CollectionDamaged."""
        with connect_once(self._engine) as connection:
            rows = _VECTOR_BY_ID.run(connection, image_id).all()
        if not rows:
            raise _not_found(image_id)
        if rows[0].checksum != vector_checksum(rows[0].number, rows[0].vector):
            raise CollectionDamaged(f"the vector of image {image_id} does not match its checksum; {REPAIR}")
        return bytes(rows[0].vector)

    def first_id_showing(self, content_hash: str) -> str | None:
        """Return the id of the first image with this content hash; None if there is none."""
        with connect_once(self._engine) as connection:
            image_id = _FIRST_SHOWING.run(connection, content_hash).scalar()
        return None if image_id is None else str(image_id)

    def content_hashes(self) -> dict[int, str]:
        """Return the content hash of every image, by number."""
        return dict(self._rows(select(images.c.number, images.c.content_hash)))

    def image_ids(self) -> dict[int, str]:
        """Return the id of every image, by number."""
        return dict(self._rows(select(images.c.number, images.c.image_id)))

    def sources(self) -> dict[int, str]:
        """Return the file, or address, of every image, by number."""
        return dict(self._rows(select(images.c.number, images.c.source)))

    def patient_keys(self) -> dict[int, str]:
        """Return the patient key of every image that has one, by number."""
        query = select(images.c.number, images.c.patient_key).where(images.c.patient_key.is_not(None))
        return dict(self._rows(query))

    # Image numbers

    def numbers_of(self, image_ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the numbers (j,) of at most some hundred images, in their order; raises NotFound."""
        query = select(images.c.image_id, images.c.number).where(images.c.image_id.in_(image_ids))
        numbers = dict(self._rows(query))
        for image_id in image_ids:
            if image_id not in numbers:
                raise _not_found(image_id)
        return np.array([numbers[image_id] for image_id in image_ids], np.int64)

    numbers_by_id = query_method(record_rows.numbers_by_id)

    def numbers_showing(self, content_hashes: Sequence[str]) -> NDArray[np.int64]:
        """Return the numbers of all images with one of these content hashes."""
        return self._read(numbers_where, images.c.content_hash.in_(content_hashes))

    def numbers_of_patients(self, patient_keys: Iterable[str]) -> NDArray[np.int64]:
        """Return the numbers of the images of any number of patients, ascending."""
        numbers = [
            self._read(numbers_where, images.c.patient_key.in_(batch))
            for batch in batches(sorted(set(patient_keys)))
        ]
        return np.sort(np.concatenate([np.empty(0, np.int64), *numbers]))

    numbers_in = query_method(numbers_in_order)

    def matching_numbers(self, conditions: Iterable[Condition]) -> NDArray[np.int64]:
        """Return the numbers of the images for which every condition holds, ascending."""
        with connect_once(self._engine) as connection:
            return numbers_where(connection, *(condition.matches() for condition in conditions))

    group_keys = query_method(image_order.read_group_keys)

    # DICOM instances

    group_images = query_method(dicom_instances.group_images)
    dicom_groups = query_method(image_order.read_groups)
    known_instances = query_method(dicom_instances.known_instances)
    known_files = query_method(dicom_instances.known_files)
    other_pictures = query_method(dicom_instances.other_pictures)
    sop_classes = query_method(dicom_instances.sop_classes)
    study_counts = query_method(dicom_instances.count_instances)

    # Labels

    def conditions(self, where: Iterable[str | Condition]) -> tuple[Condition, ...]:
        """Parse label conditions, see `parse_filters`; raises InvalidInput for a key that no image has too."""
        parsed = parse_filters(where)
        # `!key?` may ask whether any image has the label
        if keys := [condition.key for condition in parsed if condition.operator != ABSENT]:
            self._read(image_counts.check_label_keys, keys)
        return parsed

    def list_label_keys(self, where: Sequence[Condition] = ()) -> list[LabelKey]:
        """Return the label keys of the images for which all conditions hold, in alphabetical order."""
        return self._read(image_counts.read_label_keys, where)

    def list_label_values(
        self, key: str, where: Sequence[Condition] = (), offset: int = 0, limit: int = 100
    ) -> LabelValues:
        """Return a page of the values of a label, the most frequent first.

        Parameters
        ----------
        key : str
            Label key.
        where : sequence of Condition
            Conditions on the images that count; all must hold.
        offset, limit : int
            Number of values before the page, and on it.
        """
        return self._read(image_counts.read_label_values, key, where, offset, limit)

    label_keys = query_method(image_counts.count_label_keys)
    label_values = query_method(image_counts.frequent_values)

    def labels_by_number(self, key: str) -> dict[int, str]:
        """Return the value of a label for every image that has it, by number."""
        require_other_keys([key])
        return dict(self._rows(select(labels.c.number, labels.c.value).where(labels.c.key == key)))

    numeric_labels = query_method(image_counts.numeric_values)


def _not_found(image_id: str) -> NotFound:
    return NotFound(f"there is no image {image_id} in the collection")
