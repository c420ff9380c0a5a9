"""A collection: a folder with SQLite for records and vectors, and a snapshot that is derived from it."""

import os
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection, Engine, Row, Select, func, insert, inspect, select
from sqlalchemy.exc import DatabaseError

from cbir.atomic import write_bytes
from cbir.errors import CollectionDamaged, InvalidInput, NotFound
from cbir.gallery.gallery import Rows
from cbir.gallery.live_graph import Neighbourhood
from cbir.store import facts, model, schema, view
from cbir.store.filters import Condition
from cbir.store.instances import DicomScope
from cbir.store.knn_file import read_knn
from cbir.store.lock import writer_lock
from cbir.store.profile import Profile
from cbir.store.records import Record, hash_patient
from cbir.store.room import told_when_full
from cbir.store.schema import SECRET, images, labels, meta
from cbir.store.snapshot import Snapshot, SnapshotInfo, open_snapshot
from cbir.store.statistics import Statistics
from cbir.store.view import View
from cbir.store.writer import Writer

SECRET_BYTES = 32


class Collection:
    """The reading side: records, and views of the vectors that follow what other processes write.

    Thread-safe. Writing goes through `cbir.store.writer.Writer`.
    """

    def __init__(self, folder: Path | str) -> None:
        """Open the collection in `folder`. Raises NotFound, or CollectionDamaged where it cannot be read."""
        self.folder = Path(folder)
        if not self.exists(folder):
            raise NotFound(
                f"there is no collection in {folder}; `cbir index SOURCE --collection {folder}` makes one"
            )
        self.engine: Engine = schema.connect(self.folder)
        try:
            with told_when_full(self.folder):
                with self.engine.connect() as connection:
                    self._check_format(connection)
                    self._profile = self._read_profile(connection)
                schema.complete(self.engine)
        except (DatabaseError, ValueError) as error:
            if not os.access(self.folder, os.W_OK):
                raise InvalidInput(
                    f"{folder} cannot be written to, which reading needs too (SQLite's write-ahead log); copy it "
                    "to a folder of yours"
                ) from error
            raise CollectionDamaged(
                f"the database of {folder} cannot be read: {type(error).__name__}"
            ) from error
        self._refresh = threading.Lock()
        self._view: View | None = None
        self._opened: tuple[Snapshot, SnapshotInfo] | None = None
        self._neighbourhood: Neighbourhood | None = None  # of the snapshot
        self._snapshot_problem: str | None = None
        self._neighbours_problem: str | None = None
        self.stands_in: str | None = None  # what is damaged, where this is its last good copy

    @staticmethod
    def exists(folder: Path | str) -> bool:
        """Whether `folder` holds a collection: a creation that was cut short does not count."""
        if not (Path(folder) / schema.DATABASE).is_file():
            return False
        engine = schema.connect(Path(folder))
        try:
            with engine.connect() as connection:
                return inspect(connection).has_table(meta.name)
        except DatabaseError:
            return True  # damaged is not absent
        finally:
            engine.dispose()

    @classmethod
    def create(cls, folder: Path | str, profile: Profile) -> "Collection":
        """Make an empty collection; raises InvalidInput where there is one already."""
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise InvalidInput(f"{folder} is a file; a collection needs a folder of its own")
        with told_when_full(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with writer_lock(folder):
                if cls.exists(folder):
                    raise InvalidInput(f"{folder} already holds a collection")
                cls._make(folder, profile)
        return cls(folder)

    @staticmethod
    def _make(folder: Path, profile: Profile) -> None:
        (folder / "snapshots").mkdir(exist_ok=True)
        model.keep(folder, profile)
        if not (folder / SECRET).exists():
            write_bytes(folder / SECRET, secrets.token_hex(SECRET_BYTES).encode(), permissions=0o600)
        engine = schema.connect(folder)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        said = {
            "format": str(schema.FORMAT),
            "generation": "0",
            "profile": profile.model_dump_json(),
            "created": created,
        }
        with engine.begin() as connection:
            schema.tables.create_all(connection)
            connection.execute(insert(meta), [{"key": key, "value": value} for key, value in said.items()])
        engine.dispose()

    def _read_profile(self, connection: Connection) -> Profile:
        profile = Profile.model_validate_json(facts.need(connection, "profile"))
        return model.with_model(profile, self.folder)

    def _check_format(self, connection: Connection) -> None:
        found = int(facts.need(connection, "format"))
        if found > schema.FORMAT:
            raise InvalidInput(
                f"{self.folder} has storage format {found}, this program reads {schema.FORMAT}; "
                "a newer cbir wrote it: upgrade this one"
            )
        if found < schema.FORMAT:
            raise InvalidInput(
                f"{self.folder} has storage format {found}, this program reads {schema.FORMAT}; "
                "use the version of cbir that wrote it, or index the images again"
            )

    @contextmanager
    def writer(self, who: str = "command line") -> Iterator[Writer]:
        """The writing side, for one process at a time; raises CollectionBusy where another has it.

        who: whom the history names for what is written. Raises CollectionDamaged for a copy that stands in for a
        damaged collection, and StorageFull where what is done inside finds no room.
        """
        if self.stands_in:
            raise CollectionDamaged(self.stands_in)
        with told_when_full(self.folder), writer_lock(self.folder):
            yield Writer(self.folder, self.engine, who)

    def close(self) -> None:
        """Let go of the database's connections."""
        self.engine.dispose()

    def __enter__(self) -> "Collection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        with self.engine.connect() as connection:
            return connection.scalar(select(func.count()).select_from(images)) or 0

    @property
    def profile(self) -> Profile:
        """The profile as it was when the collection was opened."""
        return self._profile

    @property
    def secret(self) -> bytes:
        """The key that patients' identifiers are hashed with."""
        damaged = f"the key file {SECRET} of {self.folder} is missing or damaged; put it back from a backup"
        try:
            found = bytes.fromhex((self.folder / SECRET).read_text())
        except (OSError, ValueError) as error:
            raise CollectionDamaged(damaged) from error
        if len(found) != SECRET_BYTES:
            raise CollectionDamaged(damaged)
        return found

    def generation(self) -> int:
        """Counts the transactions that changed the collection."""
        with self.engine.connect() as connection:
            return int(facts.need(connection, "generation"))

    def statistics(self) -> Statistics | None:
        """The statistics that vectors are normalised with; None until an indexing run has ended."""
        with self.engine.connect() as connection:
            return facts.statistics(connection)

    def view(self) -> View:
        """The present state, from memory where nothing has changed since the last call."""
        generation = self.generation()
        current = self._view
        if current is not None and current.generation == generation:
            return current
        with self._refresh:
            for attempt in range(3):
                with self.engine.connect() as connection:
                    generation = int(facts.need(connection, "generation"))
                    if self._view is not None and self._view.generation == generation:
                        return self._view
                    # One that cannot be opened may just have been replaced: look again, then do without.
                    if self._open_snapshot(connection) or attempt == 2:
                        self._profile = self._read_profile(connection)
                        self._view = view.build(
                            connection,
                            self._profile,
                            facts.statistics(connection),
                            generation,
                            self._opened,
                            self._view,
                            self._neighbourhood,
                        )
                        return self._view
        raise AssertionError("the last attempt returns")

    @property
    def snapshot_problem(self) -> str | None:
        """Why the present view is not all it should be, in words; None where it is."""
        return self.stands_in or self._snapshot_problem or self._neighbours_problem

    def _open_snapshot(self, connection: Connection) -> bool:
        """Open the snapshot that the database names, unless it is open; False where it cannot be read."""
        info = facts.snapshot(connection)
        self._snapshot_problem = None
        if info is None:
            self._opened = self._neighbourhood = self._neighbours_problem = None
            return True
        if self._opened and self._opened[1] == info:
            return True
        self._neighbourhood = self._neighbours_problem = None
        fitted = facts.statistics(connection)
        assert fitted is not None, "a snapshot is only ever written with statistics"
        try:
            path = self.folder / "snapshots" / info.file
            self._opened = open_snapshot(path, info, len(fitted.mean)), info
        except CollectionDamaged as damage:
            self._opened, self._snapshot_problem = None, str(damage)
            return False
        try:
            if info.neighbours_checksum:
                found = read_knn(path.with_name(info.neighbours), info.images, len(fitted.mean))
                self._neighbourhood = Neighbourhood(found)
        except CollectionDamaged as damage:
            self._neighbours_problem = f"{damage}: re-ranking by neighbours sees the nearest images alone"
        return True

    def select_rows(
        self,
        current: View,
        where: Sequence[Condition] = (),
        exclude_patient: str | None = None,
        exclude_content: str | None = None,
        outside: DicomScope | None = None,
    ) -> Rows | None:
        """Rows of a view to search; None for all of them.

        exclude_patient, outside: see `cbir.search.Request`. exclude_content: a content hash, left out.
        """
        with self.engine.connect() as connection:
            matching = current.rows_of(view.matching_numbers(connection, where)) if where else None
            unwanted = []
            if exclude_content:
                unwanted.append(images.c.content_hash == exclude_content)
            if exclude_patient:
                keys = [exclude_patient, hash_patient(self.secret, exclude_patient)]
                unwanted.append(images.c.patient_key.in_([key for key in keys if key]))
            if outside:
                unwanted.append(outside.leaves_out())
            without = [
                np.fromiter(connection.scalars(select(images.c.number).where(u)), np.int64) for u in unwanted
            ]
        return current.select(matching, current.rows_of(np.concatenate([np.empty(0, np.int64), *without])))

    def record(self, image_id: str) -> Record:
        """The record of one image; raises NotFound."""
        with self.engine.connect() as connection:
            found = _records(connection, select(images).where(images.c.image_id == image_id))
        if not found:
            raise NotFound(f"there is no image {image_id} in the collection")
        return next(iter(found.values()))

    def iterate(self) -> Iterator[tuple[int, Record]]:
        """Every image's number and record, in the order they came, some thousand at a time."""
        last = 0
        while found := self.page(
            last, 2000
        ):  # a transaction each, or a slow consumer would hold up checkpoints
            yield from found
            last = found[-1][0]

    def page(
        self, after: int = 0, limit: int = 100, where: Sequence[Condition] = ()
    ) -> list[tuple[int, Record]]:
        """Up to `limit` images numbered above `after` for which every condition holds, in the order they came."""
        following = select(images).where(
            images.c.number > after, *(condition.matches() for condition in where)
        )
        with self.engine.connect() as connection:
            found = _records(connection, following.order_by(images.c.number).limit(limit))
        return list(found.items())

    def thumbnail(self, image_id: str) -> bytes | None:
        """The JPEG that is kept of an image which was sent here; None where none is."""
        kept = select(schema.thumbnails.c.picture).join(images).where(images.c.image_id == image_id)
        with self.engine.connect() as connection:
            return connection.scalar(kept)

    def records(self, numbers: Sequence[int]) -> dict[int, Record]:
        """Records by image number; numbers deleted meanwhile are missing."""
        found: dict[int, Record] = {}
        with self.engine.connect() as connection:
            for start in range(0, len(numbers), schema.AT_ONCE):
                part = [int(number) for number in numbers[start : start + schema.AT_ONCE]]
                found |= _records(connection, select(images).where(images.c.number.in_(part)))
        return found

    def vector(self, image_id: str) -> np.ndarray:
        """The raw vector (d,) float32 of one image; raises NotFound."""
        wanted = select(schema.vectors.c.vector).join(images).where(images.c.image_id == image_id)
        with self.engine.connect() as connection:
            found = connection.scalar(wanted)
        if found is None:
            raise NotFound(f"there is no image {image_id} in the collection")
        return np.frombuffer(found, "<f4").astype(np.float32)

    def shows(self, content_hash: str) -> str | None:
        """The id of the first image that shows this very picture, None where none does."""
        first = (
            select(images.c.image_id).where(images.c.content_hash == content_hash).order_by(images.c.number)
        )
        with self.engine.connect() as connection:
            return connection.scalar(first.limit(1))

    def label_keys(self) -> dict[str, int]:
        """Every label key, with the number of images that have it."""
        with self.engine.connect() as connection:
            counted = select(labels.c.key, func.count()).group_by(labels.c.key).order_by(labels.c.key)
            return dict(connection.execute(counted).all())

    def label_values(self, key: str, limit: int) -> list[tuple[str, int]]:
        """Up to `limit` values of a label with the number of images that have each, the most frequent first."""
        count = func.count()
        values = select(labels.c.value, count).where(labels.c.key == key).group_by(labels.c.value)
        with self.engine.connect() as connection:
            found = connection.execute(values.order_by(count.desc(), labels.c.value).limit(limit))
            return [(value, number) for value, number in found]

    def info(self) -> dict[str, Any]:
        """What `cbir collection info` prints."""
        with self.engine.connect() as connection:
            snapshot, fitted = facts.snapshot(connection), facts.statistics(connection)
            count = connection.scalar(select(func.count()).select_from(images)) or 0
            generation, form = facts.need(connection, "generation"), facts.need(connection, "format")
            created = facts.need(connection, "created")
        size = sum(_size(path) for path in self.folder.rglob("*"))
        return {
            "images": count,
            "profile": self._profile.name,
            "profile_hash": self._profile.hash,
            "descriptor": self._profile.descriptor,
            "weights": self._profile.weights,
            "rerank": self._profile.rerank,
            "generation": int(generation),
            "format": int(form),
            "created": created,
            "statistics_fitted_on": fitted.fitted_on if fitted else None,
            "snapshot": snapshot.model_dump(include={"file", "generation", "images"}) if snapshot else None,
            "labels": self.label_keys(),
            "bytes_on_disk": size,
        }


def _size(path: Path) -> int:
    """Bytes of a file; 0 for folders, and for what a writer has just removed."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0


def _records(connection: Connection, query: Select[Any]) -> dict[int, Record]:
    """Records of the rows of `images` that a query selects, in its order, with their labels."""
    rows = connection.execute(query).all()
    found: dict[int, dict[str, str]] = {row.number: {} for row in rows}
    wanted = select(labels.c.number, labels.c.key, labels.c.value).where(labels.c.number.in_(found))
    for number, key, value in connection.execute(wanted.order_by(labels.c.key)):
        found[number][key] = value
    return {row.number: _record(row, found[row.number]) for row in rows}


def _record(row: Row[Any], its_labels: dict[str, str]) -> Record:
    values = dict(row._mapping)
    del values["number"]
    values["burned_in"] = bool(values["burned_in"])
    return Record(labels=its_labels, **values)
