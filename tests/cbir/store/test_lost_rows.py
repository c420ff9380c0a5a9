"""Rows, tables and settings that a damaged file has lost are noticed, and restored from the last good copy."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from cbir.errors import CollectionDamaged, InvalidInput
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.base.damage import read_totals, store_totals
from cbir.store.base.schema import connect
from cbir.store.limited_collection import LimitedCollection
from cbir.store.records.filter_conditions import parse_filter
from cbir.store.safety import last_good
from cbir.store.upkeep.repair import repair_folder, repair_rows
from cbir.store.upkeep.restore import open_or_fallback
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.conftest import entry

IMAGES = 8
DELETED = entry(7)[0].content_hash


@pytest.fixture
def full(collection: Collection) -> Collection:
    """Images with labels, one of them deleted; an erased patient, a further instance; all in the last good copy."""
    with collection.writer() as writer:
        first = [entry(n, "a" * 32, {"ward": "one", "part": "knee"}) for n in range(IMAGES)]
        writer.add(first)
        record, vector = first[0]
        writer.add([(record.__class__(**{**record.__dict__, "instance": "1.2.3", "source": "/b"}), vector)])
        writer.add([entry(50, "b" * 32)])
        writer.delete([DELETED])
        writer.erase_patient(["b" * 32])
    assert verify_collection(collection) == []
    return collection


@contextmanager
def damaging(folder: Path) -> Iterator[sqlite3.Connection]:
    """A connection whose changes leave the sums as they are, as damage of the file does."""
    engine = connect(folder)
    with engine.begin() as connection:
        totals = read_totals(connection)
        yield connection.connection.driver_connection
        store_totals(connection, totals)
    engine.dispose()


LISTS = {
    "forgotten": "content_hash = 'f' || substr(content_hash, 2)",
    "erased": "mark = 'x' || substr(mark, 2)",
    "instance_copies": "patient_key = 'c'",
}


@pytest.mark.parametrize("table", LISTS)
@pytest.mark.parametrize("damage", ["content", "checksum"])
def test_damaged_entries_of_lists_are_seen_and_restored(full: Collection, table: str, damage: str) -> None:
    before = full._engine.connect().exec_driver_sql(f"SELECT * FROM {table}").all()
    assert len(before) == 1
    with damaging(full.folder) as connection:
        connection.execute(f"UPDATE {table} SET {LISTS[table] if damage == 'content' else 'checksum = 5'}")
    assert any("list of" in problem for problem in verify_collection(full))
    with full.writer() as writer:
        with pytest.raises(CollectionDamaged, match="list of"):
            writer.compact()
        assert repair_rows(full).lost == []
        assert verify_collection(full) == []
        assert writer.add([entry(7), entry(50)]).deleted_earlier == 2
    assert full._engine.connect().exec_driver_sql(f"SELECT * FROM {table}").all() == before


def test_an_entry_that_no_copy_has_is_named_as_lost(full: Collection) -> None:
    last_good.drop_last_good(full.folder)
    with damaging(full.folder) as connection:
        connection.execute(f"UPDATE forgotten SET {LISTS['forgotten']}")
    with full.writer():
        assert repair_rows(full).lost == ["1 entries of the list of deleted images"]
    assert verify_collection(full) == []


@pytest.mark.parametrize("table", ["labels", "thumbnails", "vectors", "images", "forgotten", "meta"])
def test_missing_rows_are_seen_and_restored(full: Collection, table: str) -> None:
    by = {"forgotten": "1", "meta": "key = 'statistics'"}.get(table, "number = 2")
    if table == "thumbnails":
        with full._engine.begin() as connection:
            connection.exec_driver_sql(
                "INSERT INTO thumbnails VALUES (2, x'00', row_checksum(CAST(2 AS BLOB), x'00'))"
            )
        with full.writer() as writer:
            writer.compact()
    before = full._engine.connect().exec_driver_sql(f"SELECT * FROM {table} ORDER BY 1, 2, 3").all()
    with damaging(full.folder) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(f"DELETE FROM {table} WHERE {by}")
    assert verify_collection(full) != []
    with full.writer() as writer:
        with pytest.raises(CollectionDamaged):
            writer.compact()
        repaired = repair_rows(full)
    assert repaired.lost == []
    assert "missing rows of" in repaired.restored[-1]
    assert verify_collection(full) == []
    after = full._engine.connect().exec_driver_sql(f"SELECT * FROM {table} ORDER BY 1, 2, 3").all()
    assert [row for row in after if row[0] not in ("generation", "incomplete_changes")] == [
        row for row in before if row[0] not in ("generation", "incomplete_changes")
    ]


def test_rows_that_no_copy_has_are_named_as_lost(full: Collection) -> None:
    with full.writer() as writer:
        (late,) = writer.add([entry(100, labels={"part": "hand"})]).ids
        with damaging(full.folder) as connection:
            connection.execute("DELETE FROM labels WHERE value = 'hand'")
        assert repair_rows(full).lost == ["missing rows of labels"]
        writer.set_labels(late, {"part": "hand"})
        assert verify_collection(full) == []


def test_a_snapshot_without_statistics_is_damage(full: Collection) -> None:
    with damaging(full.folder) as connection:
        connection.execute("DELETE FROM meta WHERE key = 'statistics'")
    with Collection(full.folder) as opened, pytest.raises(CollectionDamaged, match="statistics"):
        opened.view()


def test_a_missing_table_is_damage(full: Collection) -> None:
    full.close()
    with closing(sqlite3.connect(full.folder / "collection.sqlite")) as connection:
        connection.execute("DROP TABLE forgotten")
    with pytest.raises(CollectionDamaged, match="forgotten"):
        Collection(full.folder)
    with open_or_fallback(full.folder) as opened:
        assert opened.fallback_for


@pytest.mark.parametrize("key", ["profile", "format"])
def test_a_damaged_setting_needed_to_open_is_restored(full: Collection, key: str) -> None:
    full.close()
    changed = {"profile": "replace(value, 'tamura', 'tamurA')", "format": "'3'"}
    with damaging(full.folder) as connection:
        connection.execute(f"UPDATE meta SET value = {changed[key]} WHERE key = ?", (key,))
    with pytest.raises(CollectionDamaged, match=key):
        Collection(full.folder)
    with open_or_fallback(full.folder) as opened:
        assert opened.fallback_for
    repaired = repair_folder(full.folder)
    assert repaired.restored == [f"{key} of the collection from the last good copy"]
    with Collection(full.folder) as opened:
        assert verify_collection(opened) == []


def test_a_sound_format_of_a_newer_version_is_no_damage(full: Collection) -> None:
    full.close()
    with damaging(full.folder) as connection:
        checksum = "row_checksum(CAST('format' AS BLOB), CAST('3' AS BLOB))"
        connection.execute(f"UPDATE meta SET value = '3', checksum = {checksum} WHERE key = 'format'")
    with pytest.raises(InvalidInput, match="newer"):
        Collection(full.folder)


@pytest.mark.parametrize("same_key", [True, False])
def test_the_copy_of_another_collection_restores_nothing(full: Collection, same_key: bool) -> None:
    """As if the files of a collection were deleted apart from the copy, and a new one made of other images."""
    secret = full.secret if same_key else None
    full.close()
    copy = shutil.copytree(full.folder / last_good.NAME, full.folder.parent / "copy")
    shutil.rmtree(full.folder)
    with Collection.create(full.folder, profiles.get("tamura"), secret) as opened, opened.writer() as writer:
        shutil.copytree(copy, full.folder / last_good.NAME)
        (image_id, *_) = writer.add([entry(n) for n in range(200, 206)]).ids
        with damaging(full.folder) as connection:
            connection.execute("UPDATE vectors SET vector = zeroblob(24) WHERE number = 1")
        assert repair_rows(opened).lost == [f"vectors of 1 images ({image_id})"]
        assert opened._engine.connect().exec_driver_sql("SELECT vector FROM vectors").scalar() == bytes(24)


def test_no_collection_is_created_over_the_copy_of_another(full: Collection) -> None:
    full.close()
    (full.folder / "collection.sqlite").unlink()
    with pytest.raises(CollectionDamaged, match="missing"):
        Collection.create(full.folder, profiles.get("tamura"))
    assert (full.folder / last_good.NAME / "collection.sqlite").exists()


@pytest.mark.parametrize("change", ["value = 'two'", "checksum = 5", "key = 'warc'", "number = 3"])
def test_a_damaged_label_is_never_served(full: Collection, change: str) -> None:
    image_id = entry(1)[0].image_id or entry(1)[0].content_hash
    with damaging(full.folder) as connection:
        connection.execute(f"UPDATE OR REPLACE labels SET {change} WHERE number = 2 AND key = 'ward'")
    for where in ("ward=two", "ward!=one"):
        with LimitedCollection(full, [parse_filter(where)]) as limited:
            assert len(limited) == (0 if where == "ward=two" or "number" not in change else 1)
    with pytest.raises(CollectionDamaged, match="labels of 1 images"):
        list(full.iterate())
    if "key" not in change and "number" not in change:
        last_good.drop_last_good(full.folder)
        with full.writer() as writer:
            assert repair_rows(full).lost == [f"labels of 1 images ({image_id})"]
            assert writer.set_labels(image_id, {"ward": "one"})
        assert full.record(image_id).labels == {"ward": "one", "part": "knee"}
        assert verify_collection(full) == []


def test_a_damaged_record_is_never_served(full: Collection) -> None:
    with damaging(full.folder) as connection:
        connection.execute("UPDATE images SET patient_key = 'other' WHERE number = 2")
    with pytest.raises(CollectionDamaged, match=entry(1)[0].content_hash):
        full.records([1, 2])
    assert len(full.records([1, 3])) == 2


def test_sums_follow_every_change(full: Collection, tmp_path: Path) -> None:
    with full.writer() as writer:
        ids = writer.add([entry(n, "d" * 32, {"part": "hand"}) for n in range(100, 110)]).ids
        writer.label_images("grade", dict.fromkeys(ids, "3"))
        writer.set_labels(ids[0], {"grade": None})
        writer.delete(ids[:3])
        writer.add([entry(100)], restore=True)
        assert verify_collection(full) == []
        writer.erase_patient(["d" * 32])
    assert verify_collection(full) == []
    assert np.isfinite(full.view().statistics.mean).all()
