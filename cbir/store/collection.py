"""A collection: a folder with SQLite for records and vectors, and a snapshot that is derived from it."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DatabaseError

from cbir.errors import CollectionDamaged, InvalidInput, NotFound
from cbir.gallery.vector_blocks import Rows
from cbir.store import (
    change_history,
    dicom_instances,
    grade_models,
    idempotency,
    image_counts,
    label_queries,
    metadata,
    record_queries,
    schema,
)
from cbir.store.change_history import Change
from cbir.store.collection_view import View, load_vectors, vector_length
from cbir.store.creation import check_format, collection_exists, create_files, read_secret
from cbir.store.dicom_instances import DicomScope, StudyCounts
from cbir.store.disk_full import raise_when_full
from cbir.store.filter_conditions import Condition
from cbir.store.idempotency import StoredReply
from cbir.store.normalisation import Statistics
from cbir.store.profile import Profile
from cbir.store.record_queries import LabelledImage
from cbir.store.records import Record, hash_patient
from cbir.store.view_cache import ViewCache
from cbir.store.writer import Writer
from cbir.store.writer_lock import writer_lock

PAGE = 2000  # records that `iterate` reads in one transaction

P = ParamSpec("P")
T = TypeVar("T")


class Collection:
    """Reading side of a collection: records, and views of the vectors that follow other processes' writes.

    Thread-safe. Writing goes through `Collection.writer`. fallback_for: the damage of the collection that this last
    good copy is open for; None for a collection itself.
    """

    def __init__(self, folder: Path | str) -> None:
        """Open the collection in `folder`. Raises NotFound, or CollectionDamaged if it cannot be read."""
        self.folder = Path(folder)
        if not self.exists(folder):
            raise NotFound(
                f"there is no collection in {folder}; `cbir index SOURCE --collection {folder}` creates one"
            )
        self._engine: Engine = schema.connect(self.folder)
        try:
            with raise_when_full(self.folder):
                with self._engine.connect() as connection:
                    check_format(connection, self.folder)
                    profile = metadata.read_profile(connection, self.folder)
                schema.complete(self._engine)
        except (DatabaseError, ValueError) as error:
            if not os.access(self.folder, os.W_OK):
                raise InvalidInput(
                    f"{folder} is not writable, which reading needs too (SQLite's write-ahead log); copy it to a "
                    "folder that is"
                ) from error
            raise CollectionDamaged(
                f"the database of {folder} cannot be read: {type(error).__name__}"
            ) from error
        self._views = ViewCache(self.folder, self._engine, profile)
        self.fallback_for: str | None = None

    @staticmethod
    def exists(folder: Path | str) -> bool:
        """Return whether `folder` holds a collection; an interrupted creation does not count."""
        return collection_exists(Path(folder))

    @classmethod
    def create(cls, folder: Path | str, profile: Profile) -> "Collection":
        """Create an empty collection with this `profile`; raises InvalidInput if `folder` holds one already."""
        create_files(Path(folder), profile)
        return cls(folder)

    @contextmanager
    def writer(self, who: str = "command line") -> Iterator[Writer]:
        """Lock the collection for writing, for one process at a time.

        `who` is the name in the history. Raises CollectionBusy if another process writes, CollectionDamaged for the
        last good copy of a damaged collection, and StorageFull if the disk is full.
        """
        if self.fallback_for:
            raise CollectionDamaged(self.fallback_for)
        with raise_when_full(self.folder), writer_lock(self.folder):
            yield Writer(self.folder, self._engine, who)

    def close(self) -> None:
        """Close the database's connections."""
        self._engine.dispose()

    def __enter__(self) -> "Collection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self._read(record_queries.count_records)

    def _read(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `query` with a connection, in a transaction."""
        with self._engine.connect() as connection:
            return query(connection, *args, **kwargs)

    # The collection as a whole

    @property
    def profile(self) -> Profile:
        """Profile as of the last call of `view`, or of opening."""
        return self._views.profile

    @property
    def secret(self) -> bytes:
        """Key that patients' identifiers are hashed with."""
        return read_secret(self.folder)

    @property
    def snapshot_problem(self) -> str | None:
        """Damage that makes the current view incomplete; None if there is none."""
        return self.fallback_for or self._views.problem

    def generation(self) -> int:
        """Return the number of transactions that have changed the collection."""
        return int(self._read(metadata.required_value, "generation"))

    def statistics(self) -> Statistics | None:
        """Return the statistics that normalise vectors; None until an indexing run has ended."""
        return self._read(metadata.read_statistics)

    def info(self) -> dict[str, Any]:
        """Return the summary that `cbir collection info` prints."""
        return self._read(image_counts.collection_info, self.folder, self.profile)

    def counts(self) -> dict[str, Any]:
        """Return counts of images and patients, and of images by format and label."""
        return self._read(image_counts.count_images)

    def history(self, before: int | None = None, limit: int = 100) -> list[Change]:
        """Return up to `limit` changes, the newest first; with `before`, only those with a smaller number."""
        return self._read(change_history.read_changes, before, limit)

    def find_reply(self, key: str) -> StoredReply | None:
        """Return the reply to an earlier request with this idempotency key."""
        return self._read(idempotency.find_reply, key)

    def graded_labels(self) -> list[str]:
        """Return the labels that a grade model was fitted to, in alphabetical order."""
        return self._read(grade_models.graded_labels)

    def grade_model(self, label: str) -> str | None:
        """Return the grade model that was fitted to a label; None if there is none."""
        return self._read(grade_models.read_grade_model, label)

    # Views and rows

    def view(self) -> View:
        """Return the current state, from memory if nothing has changed since the last call."""
        return self._views.view()

    def select_rows(
        self,
        view: View,
        where: Sequence[Condition] = (),
        exclude_patient: str | None = None,
        exclude_content: str | None = None,
        outside: DicomScope | None = None,
    ) -> Rows | None:
        """Return the rows of a view to search; None for all of them.

        Parameters
        ----------
        view : View
            View of this collection.
        where : sequence of Condition
            Label conditions; all must hold.
        exclude_patient : str, optional
            Key or identifier of a patient whose images are left out.
        exclude_content : str, optional
            Content hash of images to leave out.
        outside : DicomScope, optional
            Study, series or instance to leave out; images that are no DICOM instance are left out too.
        """
        with self._engine.connect() as connection:
            rows = view.rows_of(record_queries.matching_numbers(connection, where)) if where else None
            excluded = [np.empty(0, np.int64)]
            if exclude_content:
                excluded.append(record_queries.numbers_showing(connection, [exclude_content]))
            if exclude_patient:
                keys = [exclude_patient, hash_patient(self.secret, exclude_patient)]
                excluded.append(record_queries.numbers_of_patients(connection, [key for key in keys if key]))
            if outside:
                excluded.append(record_queries.numbers_outside(connection, outside))
        return view.select(rows, view.rows_of(np.concatenate(excluded)))

    # Records

    def record(self, image_id: str) -> Record:
        """Return the record of one image; raises NotFound."""
        return self._read(record_queries.read_record, image_id)

    def records(self, numbers: Sequence[int]) -> dict[int, Record]:
        """Return records by image number; deleted images are left out."""
        return self._read(record_queries.read_records, numbers)

    def records_by_id(self, image_ids: Iterable[str]) -> dict[str, Record]:
        """Return records by image id; unknown ids are left out."""
        return self._read(record_queries.read_records_by_id, image_ids)

    def iterate(self) -> Iterator[tuple[int, Record]]:
        """Yield number and record of every image, in the order in which they were added."""
        last = 0
        while page := self.page(last, PAGE):  # a transaction each: a slow consumer would hold up checkpoints
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
        return self._read(record_queries.read_page, after, limit, where)

    def thumbnail(self, image_id: str) -> bytes | None:
        """Return the stored JPEG of an uploaded image; None if there is none."""
        return self._read(record_queries.read_thumbnail, image_id)

    def vector(self, image_id: str) -> NDArray[np.float32]:
        """Return the raw vector (d,) float32 of one image; raises NotFound."""
        return self._read(record_queries.read_vector, image_id)

    def first_id_showing(self, content_hash: str) -> str | None:
        """Return the id of the first image with this content hash; None if there is none."""
        return self._read(record_queries.first_id_showing, content_hash)

    def content_hashes(self) -> dict[int, str]:
        """Return the content hash of every image, by number."""
        return self._read(record_queries.content_hashes)

    def patient_keys(self) -> dict[int, str]:
        """Return the patient key of every image that has one, by number."""
        return self._read(record_queries.patient_keys)

    # Image numbers

    def numbers_of(self, image_ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the numbers (j,) of at most some hundred images, in their order; raises NotFound."""
        return self._read(record_queries.numbers_of, image_ids)

    def numbers_showing(self, content_hashes: Sequence[str]) -> NDArray[np.int64]:
        """Return the numbers of all images with one of these content hashes."""
        return self._read(record_queries.numbers_showing, content_hashes)

    def numbers_in(self, scope: DicomScope) -> list[int]:
        """Return the numbers of the images in a DICOM `scope`, by series and instance, then by frame."""
        return self._read(record_queries.numbers_in, scope)

    def matching_numbers(self, conditions: Iterable[Condition]) -> NDArray[np.int64]:
        """Return the numbers of the images for which every condition holds, ascending."""
        return self._read(record_queries.matching_numbers, conditions)

    # DICOM instances

    def known_instances(self, uids: Iterable[str]) -> set[str]:
        """Return those of the SOP Instance UIDs `uids` that images of the collection have."""
        return self._read(dicom_instances.known_instances, uids)

    def study_counts(self, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], StudyCounts]:
        """Count series and instances of studies, by `pairs` of Study and Series Instance UID."""
        return self._read(dicom_instances.count_instances, pairs)

    # Labels

    def label_keys(self) -> dict[str, int]:
        """Return every label key with the number of images that have it."""
        return self._read(label_queries.label_keys)

    def label_values(self, key: str, limit: int) -> list[tuple[str, int]]:
        """Return up to `limit` values of a label with their image counts, the most frequent first."""
        return self._read(label_queries.label_values, key, limit)

    def labels_by_number(self, key: str) -> dict[int, str]:
        """Return the value of a label for every image that has it, by number."""
        return self._read(label_queries.labels_by_number, key)

    def numeric_labels(self, key: str) -> dict[str, float]:
        """Return the value of a label for every image where it is a finite number, by image id."""
        return self._read(label_queries.numeric_labels, key)

    def labelled_vectors(
        self, key: str, where: Sequence[Condition] = ()
    ) -> tuple[list[LabelledImage], NDArray[np.float32]]:
        """Return the images with a value of the label `key` for which `where` holds, and their raw vectors (n, d)."""
        with self._engine.connect() as connection:
            labelled = record_queries.read_labelled_images(connection, key, where)
            vectors, numbers = load_vectors(connection, 0, vector_length(self.profile))
        return labelled, vectors[np.searchsorted(numbers, [image.number for image in labelled])]
