"""Copies of a collection: into an empty folder or schema, under the same numbers and ids, or as plain files.

All is copied that cannot be derived; plain files are for other tools.
"""

import csv
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Row, Table, func, insert, select

from cbir.errors import CollectionDamaged, InvalidInput
from cbir.store.base import metadata, schema, stored_models
from cbir.store.base.collection_folder import restrict_files
from cbir.store.base.damage import raise_when_damaged, raise_when_full
from cbir.store.base.profile import vector_format
from cbir.store.base.schema import create_quarantine, has_quarantine, quarantine
from cbir.store.base.stored_models import copy_models
from cbir.store.collection import Collection
from cbir.store.collection_address import is_alias
from cbir.store.postgresql import postgresql_address
from cbir.store.records import originals
from cbir.store.records.originals import copy_originals
from cbir.store.records.patient_key import KEY_CHECK, hash_key
from cbir.store.records.records import table_header, table_row
from cbir.store.safety.change_log import OF_BACKUP
from cbir.store.upkeep import carried_history
from cbir.store.upkeep.verify import verify_content
from cbir.store.views.collection_view import PAGE, vector_pages
from cbir.store.writing.creation import create_files
from cbir.system.files import OWNER_FOLDER, SUFFIX, rename_durably
from cbir.system.ownership import give_folder, make_folder

Progress = Callable[[str, int, int], None]  # stage, rows done, rows in all

ROWS_AT_ONCE = 2000  # rows at a time

DERIVED = (schema.tombstones, schema.change_log, schema.row_totals)

TABLES = [table for table in schema.tables.sorted_tables if table not in DERIVED]

# Of the target itself: its snapshot, its vector indexes, which collection and key it is, and that it is no backup.
OWN_KEYS = ("snapshot", "collection_id", KEY_CHECK, "erased_generation", *OF_BACKUP)

OWN_PREFIX = "index:"


@dataclass(frozen=True)
class Copied:
    """Counts of a copy. changed_meanwhile: whether others have written to the source since it was read."""

    images: int
    labels: int
    changes: int
    originals: int
    quarantined: int
    changed_meanwhile: bool


@dataclass
class RowSum:
    """Number of rows of a table, and the sum of their hashes, which does not depend on their order."""

    rows: int = 0
    total: int = 0

    def add(self, row: Row[object]) -> None:
        """Count a row."""
        self.rows += 1
        hashed = hashlib.blake2b(repr(tuple(row)).encode("utf-8", "surrogatepass"), digest_size=16)
        self.total = (self.total + int.from_bytes(hashed.digest())) % 2**128


def copy_collection(source: Collection, folder: Path, progress: Progress) -> Copied:
    """Copy a collection, as of one moment, into an empty place, and compare the copy with it row by row.

    Parameters
    ----------
    source : Collection
        Others may read it and write to it meanwhile.
    folder : Path
        New or empty folder; or the files folder of a schema without a collection.
    progress : callable
        Called with stage, rows done and rows in all.

    Raises
    ------
    InvalidInput
        If there is a collection, or another key, already.
    CollectionDamaged
        If the source is damaged, or the copy differs from it. Then there is no copy, as after an interruption.
    """
    if is_alias(folder):
        raise InvalidInput(f"{folder} is the name of an alias; name a folder or an address for the copy")
    if problems := verify_content(source, progress):
        raise CollectionDamaged(
            f"the collection is damaged: {'; '.join(problems)}; copy it when it has been repaired"
        )
    with raise_when_full(folder):
        if postgresql_address.is_in_postgresql(folder):
            copied = _copy_to_schema(source, folder, progress)
            progress("snapshot", 0, 1)
            _write_snapshot(folder)
            return copied
        return _copy_to_folder(source, folder, progress)


def _copy_to_folder(source: Collection, folder: Path, progress: Progress) -> Copied:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput(f"{folder} is not empty; name a new folder for the copy")
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        create_files(partial, source.profile, source.secret)
        engine = schema.connect(partial)
        try:
            with engine.begin() as target:
                target.execute(schema.meta.delete())
                copied = _copy_everything(source, target, partial, progress)
                metadata.set_value(target, KEY_CHECK, hash_key(source.secret))
        finally:
            engine.dispose()
        progress("snapshot", 0, 1)
        _write_snapshot(partial)
        if folder.exists():
            folder.rmdir()
        rename_durably(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return copied


def _copy_to_schema(source: Collection, folder: Path, progress: Progress) -> Copied:
    """Copy into a schema in one transaction; files that an interruption leaves are no collection without it."""
    from cbir.store.writing import creation

    with creation.creating(folder, source.secret) as target:
        stored_models.drop_severity_model(folder)  # of an interrupted copy
        return _copy_everything(source, target, folder, progress)


def _copy_everything(source: Collection, target: Connection, folder: Path, progress: Progress) -> Copied:
    """Copy files and rows, and compare them, in the transaction of `target`."""
    copy_originals(source.folder, folder)  # before any is deleted
    with ExitStack() as stack:
        stack.enter_context(raise_when_damaged(source.folder))
        reader = stack.enter_context(source._engine.connect())
        generation = int(metadata.required_value(reader, "generation"))
        tables = [*TABLES, quarantine] if has_quarantine(reader) else TABLES
        if quarantine in tables:
            create_quarantine(target)
        read = {table.name: _copy_rows(reader, target, table, progress) for table in tables}
        for table in (schema.images, schema.changes):
            last = carried_history.last_number(reader, table.name)
            carried_history.raise_last_number(target, table.name, last)
        copy_originals(source.folder, folder)
        copy_models(source.folder, folder)
    for table in tables:
        _require_equal(target, table, read[table.name], progress)
    _require_originals(target, folder)
    return Copied(
        read["images"].rows,
        read["labels"].rows,
        read["changes"].rows,
        read["originals"].rows,
        read[quarantine.name].rows if quarantine in tables else 0,
        source.generation() != generation,
    )


def _copy_rows(reader: Connection, target: Connection, table: Table, progress: Progress) -> RowSum:
    total = reader.scalar(select(func.count()).select_from(table)) or 0
    read = RowSum()
    for rows in _pages(reader, table):
        target.execute(insert(table), [dict(row._mapping) for row in rows])
        for row in rows:
            read.add(row)
        progress(f"copying {table.name}", read.rows, total)
    return read


def _require_equal(target: Connection, table: Table, read: RowSum, progress: Progress) -> None:
    written = RowSum()
    for rows in _pages(target, table):
        for row in rows:
            written.add(row)
        progress(f"comparing {table.name}", written.rows, read.rows)
    if written != read:
        raise CollectionDamaged(
            f"the copy of {table.name} differs from the collection: {written.rows} of {read.rows} rows; "
            "nothing was kept"
        )


def _pages(connection: Connection, table: Table) -> Iterator[list[Row[object]]]:
    """Yield pages of the rows that a copy has."""
    query = select(table)
    if table is schema.meta:
        key = schema.meta.c.key
        query = query.where(key.not_in(OWN_KEYS), ~key.startswith(OWN_PREFIX, autoescape=True))
    with connection.execute(query, execution_options={"yield_per": ROWS_AT_ONCE}) as result:
        for rows in result.partitions(ROWS_AT_ONCE):
            yield list(rows)


def _require_originals(connection: Connection, folder: Path) -> None:
    """Raise CollectionDamaged if an original is missing or damaged; delete those that no image needs."""
    originals.sweep_originals(connection, folder)
    stored = folder / originals.FOLDER
    damaged = [
        path
        for path in (stored.iterdir() if stored.is_dir() else ())
        if path.suffix != SUFFIX and not originals.is_intact(path)
    ]
    missing = originals.missing_originals(connection, folder)
    if damaged or missing:
        raise CollectionDamaged(
            f"{len(damaged) + len(missing)} originals could not be copied, perhaps since their images were deleted "
            "meanwhile; run the command again"
        )


def _write_snapshot(folder: Path) -> None:
    """Derive the snapshot of a copy from the statistics that came with it."""
    with Collection(folder) as copy, copy.writer() as writer:
        if copy.statistics() is not None:
            writer.snapshot()


SPOOL = "vectors.partial"

COLUMNS = ("image_id", "source", "frame", "study", "series", "instance", "patient_key")


def export_collection(collection: Collection, folder: Path, sources: bool = False) -> int:
    """Write records.csv, vectors.npy (raw, float32, a row per image) and profile.json; return the image count.

    Labels become columns of records.csv; its rows have the order of the vectors. A cell that a spreadsheet would run
    as a formula begins with an apostrophe. Paths of files, which may be names of patients, are replaced by keyed
    hashes unless `sources` is set. Only their owner can read the files. Raises
    InvalidInput if `folder` exists and is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput(f"{folder} exists and is not an empty folder; name another")
    secret = collection.secret  # before anything is written
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    make_folder(partial.parent, 0o777, parents=True, exist_ok=True)
    partial.mkdir(mode=OWNER_FOLDER)  # root's, so that no one else can put anything into it
    keys = list(collection.label_keys())
    dimensions = vector_format(collection.profile).dimensions
    numbers = _spool_vectors(partial / SPOOL, collection)
    exported: list[int] = []
    with (partial / "records.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(table_header(COLUMNS, keys))
        for number, record in collection.iterate():
            row = int(np.searchsorted(numbers, number))
            if row == len(numbers) or numbers[row] != number:
                continue  # added after the vectors were read
            if not sources:
                record = replace(record, source=_hashed(record.source, secret))
            table.writerow(table_row(record, COLUMNS, keys))
            exported.append(row)
    _write_rows(partial / "vectors.npy", partial / SPOOL, exported, dimensions)
    (partial / SPOOL).unlink()
    profile = collection.profile.model_dump() | {"hash": collection.profile.hash}
    (partial / "profile.json").write_text(json.dumps(profile, indent=2) + "\n", encoding="utf-8")
    restrict_files(partial)
    give_folder(partial)
    partial.replace(folder)  # over an empty folder at most
    return len(exported)


def _spool_vectors(path: Path, collection: Collection) -> NDArray[np.int64]:
    """Write the raw vectors of all images to a file, and return the numbers of the images."""
    numbers = [np.empty(0, np.int64)]
    with collection._engine.connect() as connection, path.open("wb") as file:
        for raw, page in vector_pages(connection, 0, vector_format(collection.profile)):
            file.write(np.ascontiguousarray(raw, "<f4").data)
            numbers.append(page)
    return np.concatenate(numbers)


def _write_rows(path: Path, spool: Path, rows: list[int], dimensions: int) -> None:
    """Write these rows of the vectors in `spool` to a .npy file."""
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (len(rows), dimensions)}
        np.lib.format.write_array_header_1_0(file, header)
        if rows:
            raw = np.memmap(spool, "<f4", "r").reshape(-1, dimensions)
            for start in range(0, len(rows), PAGE):
                file.write(raw[rows[start : start + PAGE]].data)


def _hashed(source: str, secret: bytes) -> str:
    """Return the source of an upload as it is, which is a hash already, and a keyed hash of any other."""
    if source.startswith(originals.UPLOAD):
        return source
    digest = hashlib.blake2b(b"source " + os.fsencode(source), key=secret, digest_size=16)
    return f"source:{digest.hexdigest()}"
