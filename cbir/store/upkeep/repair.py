"""Restore damaged rows from a sound copy of them: the last good copy, or the snapshot."""

from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, text
from sqlalchemy.exc import DatabaseError

from cbir.errors import CbirError, CollectionBusy, CollectionDamaged
from cbir.store.base import metadata
from cbir.store.base.collection_folder import require_readable, writer_lock
from cbir.store.base.damage import (
    changed_history,
    checked_and_history,
    describe_damage_of,
    has_other_types,
    raise_when_damaged,
    read_totals,
    restore_advice,
    restore_types,
    start_totals,
    stop_totals,
)
from cbir.store.base.normalisation import Standardisation
from cbir.store.base.profile import Profile, vector_format
from cbir.store.base.schema import (
    CHECKED,
    DATABASE,
    LISTS,
    connect,
    images,
    labels,
    meta,
    thumbnails,
    vectors,
)
from cbir.store.base.statements import COLUMN, checksum_sql, vector_checksum
from cbir.store.collection import Collection
from cbir.store.postgresql.postgresql_database import require_sqlite
from cbir.store.records.label_changes import mark_incomplete, record_change
from cbir.store.records.patient_key import KEY_CHECK, check_key, find_key_check, read_secret
from cbir.store.safety import change_log, last_good
from cbir.store.safety.database_files import describe_loss, log_problem
from cbir.store.safety.row_damage import CONTENT, damaged_keys, name_images
from cbir.store.upkeep.lost_rows import (
    SAME_IMAGE,
    insert_row,
    recover_vector,
    repair_list,
    restore_missing,
    restore_vectors,
)
from cbir.store.views.collection_view import vector_pages
from cbir.store.views.snapshot_check import differing_numbers, open_intact_snapshot


@dataclass
class Repair:
    """Result of a repair: a line for each kind of row and source, and for what no source had."""

    restored: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    ended_log: bool = False  # of changes, which continued a backup

    def __add__(self, other: "Repair") -> "Repair":
        """Return the result of two repairs in turn."""
        return Repair(
            self.restored + other.restored, self.lost + other.lost, self.ended_log or other.ended_log
        )


def repair_rows(collection: Collection) -> Repair:
    """Restore the rows that do not match their checksums, or are missing; the caller holds the writer lock.

    Rows that never change (vectors, thumbnails) are taken by their image; others only if the checksum proves that the
    copy is what was stored. Raises CollectionDamaged, and changes nothing, if the database stays damaged otherwise.
    Raises AccessDenied if this process may not read a file.
    """
    require_readable(collection.folder)
    return _repair_database(collection.folder, require_sqlite(collection._engine, "a repair"))


def repair_folder(folder: Path) -> Repair:
    """Do the same for a collection that cannot be opened, for instance since its profile is damaged."""
    require_readable(folder)
    if loss := describe_loss(folder):
        raise CollectionDamaged(loss)
    lost_changes = log_problem(folder / DATABASE)
    engine = connect(folder)
    try:
        with raise_when_damaged(folder), writer_lock(folder):
            with engine.connect() as connection:
                check_key(folder, find_key_check(connection, folder))
            last_good.finish_replacement(folder)
            repaired = _repair_database(folder, engine)
            if lost_changes:
                _empty_log(folder, engine)
                repaired.lost.insert(0, lost_changes)
            return repaired
    finally:
        engine.dispose()


def _empty_log(folder: Path, engine: Engine) -> None:
    """Write what SQLite has taken over from the log into the database, and drop the rest."""
    with closing(engine.raw_connection()) as raw_connection:  # outside a transaction
        (busy, *_) = raw_connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise CollectionBusy(f"another process has {folder} open; end it, then run the same command again")


def _repair_database(folder: Path, engine: Engine) -> Repair:
    with suppress(CbirError), Collection(folder / last_good.NAME):
        pass  # brings the copy to the present format
    with engine.connect() as connection:
        copied = _attach_copy(connection, folder)
        try:
            connection.exec_driver_sql("PRAGMA foreign_keys = OFF")  # else rows are not deleted as a whole
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            repair = _repair(connection, folder, copied)
            connection.exec_driver_sql("COMMIT")
        except DatabaseError as error:
            connection.exec_driver_sql("ROLLBACK")
            raise CollectionDamaged(describe_damage_of(folder, error)) from error
        except BaseException:
            connection.exec_driver_sql("ROLLBACK")
            raise
        finally:
            if copied:
                connection.exec_driver_sql("DETACH DATABASE good")
            connection.exec_driver_sql("PRAGMA foreign_keys = ON")
            connection.exec_driver_sql("BEGIN")  # which the pool ends
    return repair


def _attach_copy(connection: Connection, folder: Path) -> bool:
    """Attach the database of the last good copy as `good`; False if there is none of this collection to read."""
    connection.exec_driver_sql("ROLLBACK")  # attaching is not possible inside a transaction
    path = folder / last_good.NAME / DATABASE
    if not path.is_file() or log_problem(path) or read_secret(path.parent) != read_secret(folder):
        return False
    try:
        connection.exec_driver_sql("ATTACH DATABASE ? AS good", (str(path),))
        connection.exec_driver_sql("SELECT count(*) FROM good.vectors WHERE checksum IS NOT NULL")
    except DatabaseError:
        with suppress(DatabaseError):
            connection.exec_driver_sql("DETACH DATABASE good")
        return False
    return True


def _repair(connection: Connection, folder: Path, copied: bool) -> Repair:
    repair = Repair()
    for table in checked_and_history(connection):
        if has_other_types(connection, table):
            restore_types(connection, table)
            repair.restored.append(f"the types of values of {table.name}")
    damaged = {table.name: damaged_keys(connection, table) for table in CHECKED}
    # With triggers, a damaged table cannot be emptied.
    if change_log.CHAIN in damaged[meta.name] or damaged[labels.name]:
        repair.ended_log = change_log.stop_log(connection)
        damaged[meta.name] = damaged_keys(connection, meta)
    repair.lost += [
        f"rows of the history ({name}), which may be wrong" for name in changed_history(connection)
    ]
    totals = read_totals(connection)
    stop_totals(connection)
    if damaged[labels.name]:
        _repair_labels(connection, damaged[labels.name], copied, repair)
    connection.exec_driver_sql("REINDEX main.labels")
    connection.exec_driver_sql("REINDEX main.images")
    connection.exec_driver_sql("REINDEX main.meta")
    for table in (meta, images, vectors, thumbnails):
        rest = [key for key in damaged[table.name] if not (copied and _copy_row(connection, table, key))]
        _report(
            connection, repair.restored, table, set(damaged[table.name]) - set(rest), "the last good copy"
        )
        damaged[table.name] = rest
    known = [table for table in CHECKED if table not in (vectors, *LISTS)]
    known += [t for t in LISTS if repair_list(connection, t, copied, repair.restored, repair.lost)]
    for table in known:
        restore_missing(connection, table, copied, totals.get(table.name), repair.restored, repair.lost)
    if copied:
        restore_vectors(connection, repair.restored)
    _repair_vectors(connection, folder, damaged[vectors.name], copied, repair)
    if metadata.AUTO in damaged[meta.name]:  # derived, and without it searches go on
        connection.exec_driver_sql("DELETE FROM main.meta WHERE key = ?", (metadata.AUTO,))
        damaged[meta.name].remove(metadata.AUTO)
        repair.restored.append("the choice of auto: removed; the next run of cbir index chooses again")
    if KEY_CHECK in damaged[meta.name]:  # the next writer stores it again
        connection.exec_driver_sql("DELETE FROM main.meta WHERE key = ?", (KEY_CHECK,))
        damaged[meta.name].remove(KEY_CHECK)
        repair.restored.append("the hash of the key: removed; it is stored again with the next change")
    for table in (meta, images, thumbnails):
        _report(connection, repair.lost, table, damaged[table.name])
    start_totals(connection)
    report = connection.scalars(text("PRAGMA integrity_check(1)")).all()
    if report != ["ok"]:
        raise CollectionDamaged(f"the database is damaged ({report[0]}); {restore_advice(folder)}")
    if repair.restored:
        repair.ended_log |= change_log.stop_log(connection)  # it has the repairs as changes
    if repair.restored:
        metadata.bump_generation(connection)
        # Which images were repaired is not known for all: vector indexes take everything over again.
        record_change(connection, "cbir collection verify --repair", "labelled", 0)
        mark_incomplete(connection)
    return repair


def _report(
    connection: Connection, lines: list[str], table: Table, keys: Iterable[Any], source: str = ""
) -> None:
    listed = sorted(keys)
    if listed and table is meta:
        lines.append(f"{', '.join(listed)} of the collection" + (f" from {source}" if source else ""))
    elif listed:
        names = name_images(connection, listed)
        lines.append(
            f"{CONTENT[table.name]} of {len(listed)} images ({names})" + (f" from {source}" if source else "")
        )


def _copy_row(connection: Connection, table: Table, key: Any) -> bool:
    """Copy a row from the last good copy if that is sound and is the row that was stored."""
    names = [column.name for column in table.c]
    by = "key" if table is meta else "number"
    same = SAME_IMAGE if table in (vectors, thumbnails) else _equal_row(names)
    query = (
        f"SELECT {', '.join(f'g.{name}' for name in names)} FROM good.{table.name} AS g, main.{table.name} AS m "
        f"WHERE g.{by} = ? AND m.{by} = g.{by} AND g.{COLUMN} = {checksum_sql(table, 'g.')} AND {same}"
    )
    row = connection.exec_driver_sql(query, (key,)).first()
    if row is None:
        return False
    connection.exec_driver_sql(f"DELETE FROM main.{table.name} WHERE {by} = ?", (key,))
    insert_row(connection, table, row)
    return True


def _equal_row(names: Iterable[str]) -> str:
    """Return the SQL condition that a damaged row and its copy are one: the same checksum, or all else the same."""
    others = " AND ".join(f"g.{name} IS m.{name}" for name in names if name != COLUMN)
    return f"(g.{COLUMN} = m.{COLUMN} OR ({others}))"


def _repair_labels(connection: Connection, numbers: list[int], copied: bool, repair: Repair) -> None:
    """Write the table of labels again; a damaged key may have put its rows out of order."""
    query = f"""
        SELECT CAST(key AS BLOB), CAST(value AS BLOB), number, {COLUMN}, {COLUMN} IS {checksum_sql(labels)}
        FROM main.labels NOT INDEXED"""
    rows = connection.exec_driver_sql(query).all()
    connection.exec_driver_sql("DELETE FROM main.labels")
    kept, lost = [], set()
    for key, value, number, checksum, sound in rows:
        original = None if sound or not copied else _original_label(connection, key, value, number, checksum)
        if original is None and not sound:
            lost.add(number)
        kept.append(original or (key, value, number, checksum or 0))
    insert = f"""
        INSERT OR IGNORE INTO main.labels (key, value, number, {COLUMN})
        SELECT CAST(?1 AS TEXT), CAST(?2 AS TEXT), ?3, ?4
        WHERE EXISTS (SELECT 1 FROM main.images WHERE number = ?3)"""
    connection.exec_driver_sql(insert, kept)
    _report(connection, repair.restored, labels, set(numbers) - lost, "the last good copy")
    _report(connection, repair.lost, labels, lost)


def _original_label(
    connection: Connection, key: bytes, value: bytes, number: int, checksum: int
) -> tuple[Any, ...] | None:
    """Return the label of the last good copy that a damaged one was."""
    query = f"""
        SELECT key, value, number, {COLUMN} FROM good.labels AS g WHERE {COLUMN} = {checksum_sql(labels, "g.")}
        AND ((g.number = ? AND g.{COLUMN} = ?)
             OR (g.key = CAST(? AS TEXT) AND g.value = CAST(? AS TEXT) AND (g.number = ? OR g.{COLUMN} = ?)))"""
    row = connection.exec_driver_sql(query, (number, checksum, key, value, number, checksum)).first()
    return tuple(row) if row else None


def _repair_vectors(
    connection: Connection, folder: Path, damaged: list[int], copied: bool, repair: Repair
) -> None:
    """Restore vectors from the snapshot, and those that changed before they had a checksum."""
    profile = Profile.model_validate_json(metadata.required_value(connection, "profile"))
    intact = open_intact_snapshot(folder, connection)
    if intact is None:
        _report(connection, repair.lost, vectors, damaged)
        return
    snapshot, statistics = intact
    if not damaged:
        pages = partial(vector_pages, connection, 0, vector_format(profile), require_finite=False)
        differing = [number for page in pages() for number in differing_numbers(*intact, *page)]
        copies = [number for number in differing if copied and _copy_row(connection, vectors, number)]
        if copies:
            damaged = [number for page in pages() for number in differing_numbers(*intact, *page)]
            _report(connection, repair.restored, vectors, set(differing) - set(damaged), "the last good copy")
        else:
            damaged = differing
    rows: dict[int, int] = {}
    if damaged and isinstance(
        statistics, Standardisation
    ):  # no vector can be computed back from a projected one
        rows = {int(number): row for row, number in enumerate(snapshot.ids)}
    for number in damaged:
        query = f"SELECT CAST(vector AS BLOB), {COLUMN} FROM main.vectors WHERE number = ?"
        stored, checksum = connection.exec_driver_sql(query, (number,)).one()
        if number in rows and isinstance(statistics, Standardisation):
            confirms = partial(_has_checksum, number, checksum)
            vector = recover_vector(snapshot.vectors[rows[number]], statistics, stored, confirms)
            update = f"UPDATE main.vectors SET vector = ?, {COLUMN} = ? WHERE number = ?"
            connection.exec_driver_sql(update, (vector, vector_checksum(number, vector), number))
    restored = [number for number in damaged if number in rows]
    _report(connection, repair.restored, vectors, restored, "the snapshot")
    _report(connection, repair.lost, vectors, set(damaged) - set(restored))


def _has_checksum(number: int, checksum: int, vector: bytes) -> bool:
    return vector_checksum(number, vector) == checksum
