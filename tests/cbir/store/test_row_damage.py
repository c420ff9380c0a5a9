"""Single flipped bits in stored rows: all are seen, none spreads into copies, and copies restore them."""

import random
import re
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from sqlite3 import connect

import numpy as np
import pytest

from cbir.errors import CollectionDamaged
from cbir.store import Collection
from cbir.store.base import metadata
from cbir.store.base.damage import read_totals, store_totals
from cbir.store.base.statements import NULL, row_checksum, vector_checksum
from cbir.store.records import originals
from cbir.store.records.add_transaction import Added, AddTransaction
from cbir.store.safety import last_good
from cbir.store.snapshot import stored_snapshot
from cbir.store.snapshot.snapshot import file_checksum
from cbir.store.upkeep.repair import repair_rows
from cbir.store.upkeep.restore import open_or_fallback
from cbir.store.upkeep.verify import verify_collection
from cbir.store.views import collection_view
from tests.cbir.store.conftest import MakeEntries, entry

IMAGES = 30
FLIPS = 10
COLUMNS = {
    "vectors": ["vector"],
    "labels": ["key", "value"],
    "thumbnails": ["picture"],
    "images": ["image_id", "content_hash", "source", "format", "study", "width", "patient_key"],
    "meta": ["value"],
}


@pytest.fixture
def full(collection: Collection, entries: MakeEntries) -> Collection:
    """Images with labels and thumbnails, most of them in a snapshot."""

    def attach(transaction: AddTransaction, added: Added) -> None:
        pictures = {number: bytes(random.Random(number).randbytes(200)) for number in added.numbers.values()}
        transaction.store_thumbnails(pictures)

    labelled = entries(0, IMAGES, patient="p", modality="CT", label="knee")
    with collection.writer() as writer:
        writer.add(
            [(replace(record, study="1.2.3"), vector) for record, vector in labelled], in_transaction=attach
        )
        writer.finish()
    assert verify_collection(collection) == []
    return collection


def flip(collection: Collection, table: str, column: str, choose: random.Random) -> None:
    """Flip one bit of one value; its indexes follow, so that only the checksum tells."""
    with collection._engine.begin() as connection:
        run = connection.exec_driver_sql
        run("PRAGMA ignore_check_constraints = ON")
        key = "rowid" if table != "labels" else "number"
        among = "WHERE key IN ('profile', 'statistics', 'snapshot')" if table == "meta" else ""
        rows = run(f"SELECT {key}, CAST({column} AS BLOB), typeof({column}) FROM {table} {among}").all()
        number, stored, kind = choose.choice(rows)
        content = bytearray(stored)
        content[choose.randrange(len(content))] ^= 1 << choose.randrange(8)
        changed = "?" if kind == "blob" else f"CAST(? AS {kind.upper()})"
        same = f"{key} = ? AND CAST({column} AS BLOB) = ?"
        run(f"UPDATE {table} SET {column} = {changed} WHERE {same}", (bytes(content), number, stored))


@pytest.mark.parametrize(("table", "column"), [(t, c) for t, names in COLUMNS.items() for c in names])
def test_every_flipped_bit_is_seen(full: Collection, table: str, column: str) -> None:
    choose = random.Random(f"{table}.{column}")
    seen = 0
    for _ in range(FLIPS if table != "images" else 6):
        with closing(full._engine.raw_connection()) as saved, closing(connect(":memory:")) as memory:
            saved.driver_connection.backup(memory)
            flip(full, table, column, choose)
            try:
                seen += verify_collection(full) != []
            except CollectionDamaged:
                seen += 1
            with closing(connect(full.folder / "collection.sqlite")) as database:
                memory.backup(database)
        assert verify_collection(full) == []
    assert seen == (FLIPS if table != "images" else 6)


def test_flipped_bits_of_the_file_are_seen(full: Collection) -> None:
    """The bytes of a vector and of a thumbnail, as a disk would damage them."""
    with full._engine.connect() as connection:
        columns = "SELECT vector FROM vectors", "SELECT picture FROM thumbnails"
        contents = [value for query in columns for (value,) in connection.exec_driver_sql(query).all()]
    with closing(connect(full.folder / "collection.sqlite")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    full.close()
    path, choose = full.folder / "collection.sqlite", random.Random(1)
    sound = path.read_bytes()
    for content in choose.sample(contents, 2 * FLIPS):
        place = sound.index(content) + choose.randrange(len(content))
        damaged = bytearray(sound)
        damaged[place] ^= 1 << choose.randrange(8)
        path.write_bytes(damaged)
        with Collection(full.folder) as opened:
            assert verify_collection(opened) != []
    path.write_bytes(sound)
    with Collection(full.folder) as opened:
        assert verify_collection(opened) == []


def files_of(folder: Path) -> dict[str, bytes]:
    """Content of the snapshot and of the last good copy's database."""
    paths = [*(folder / "snapshots").iterdir(), folder / last_good.NAME / "collection.sqlite"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("table", ["vectors", "labels", "thumbnails", "images"])
def test_nothing_is_made_from_damaged_rows(full: Collection, table: str, tmp_path: Path) -> None:
    before = files_of(full.folder)
    flip(full, table, COLUMNS[table][-1], random.Random(0))
    with full.writer() as writer:
        with pytest.raises(CollectionDamaged, match=r"1 images \([0-9a-f]{32}\).*verify --repair"):
            writer.compact()
        with pytest.raises(CollectionDamaged):
            writer.snapshot(refit=True)
        with pytest.raises(CollectionDamaged):
            writer.erase_patient(["somebody else"])
    assert files_of(full.folder) == before


@pytest.mark.parametrize("copied", [True, False])
def test_a_vector_is_restored(full: Collection, copied: bool) -> None:
    ids = [record.image_id for _, record in full.iterate()]
    vectors = [full.vector(image_id) for image_id in ids]
    for seed in range(8):
        flip(full, "vectors", "vector", random.Random(seed))
    if not copied:
        last_good.drop_last_good(full.folder)
    with full.writer() as writer:
        repair = repair_rows(full)
        assert repair.lost == []
        assert "the last good copy" if copied else "the snapshot" in repair.restored[0]
        assert verify_collection(full) == []
        np.testing.assert_array_equal([full.vector(image_id) for image_id in ids], vectors)
        writer.compact()


@pytest.mark.parametrize("table", ["labels", "thumbnails", "images", "meta"])
def test_rows_are_restored_from_the_last_good_copy(full: Collection, table: str) -> None:
    with full._engine.connect() as connection:
        before = connection.exec_driver_sql(f"SELECT * FROM {table} ORDER BY 1, 2").all()
    for column in COLUMNS[table]:
        flip(full, table, column, random.Random(2))
    with full.writer():
        repair = repair_rows(full)
    assert repair.lost == []
    with full._engine.connect() as connection:
        after = connection.exec_driver_sql(f"SELECT * FROM {table} ORDER BY 1, 2").all()
    if table == "meta":
        before, after = (
            [row for row in rows if row[0] not in ("generation", "incomplete_changes")]
            for rows in (before, after)
        )
    assert after == before
    assert verify_collection(full) == []


def test_a_damaged_checksum_is_restored_too(full: Collection) -> None:
    with full._engine.begin() as connection:
        totals = read_totals(connection)
        for table in ("vectors", "labels", "thumbnails", "images"):
            connection.exec_driver_sql(f"UPDATE {table} SET checksum = checksum + 1 WHERE number = 5")
        store_totals(connection, totals)
    with full.writer():
        assert repair_rows(full).lost == []
    assert verify_collection(full) == []


@pytest.mark.parametrize("number", [1, 14, IMAGES])
def test_vectors_of_every_page_are_compared_with_the_snapshot(
    full: Collection, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection_view, "PAGE", 4)
    last_good.drop_last_good(full.folder)
    with full._engine.begin() as connection:
        zero = np.zeros(6, "<f4").tobytes()
        values = zero, vector_checksum(number, zero), number
        connection.exec_driver_sql("UPDATE vectors SET vector = ?, checksum = ? WHERE number = ?", values)
    problems = verify_collection(full)
    assert any("the vectors of 1 images" in problem for problem in problems), problems
    with full.writer():
        assert "vectors of 1 images" in " ".join(repair_rows(full).restored)
    assert verify_collection(full) == []


def test_a_damaged_choice_of_auto_stops_no_search_and_is_removed(full: Collection) -> None:
    with full.writer() as writer:
        writer.set_auto("eprf")
    with full._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE meta SET value = 'none' WHERE key = 'auto'")
    with Collection(full.folder) as opened:
        assert opened.view().auto is None
        assert verify_collection(opened) != []
    with full.writer():
        repair = repair_rows(full)
    assert repair.lost == []
    assert repair.restored == ["the choice of auto: removed; the next run of cbir index chooses again"]
    assert verify_collection(full) == []


def test_what_changed_since_the_copy_is_not_replaced(full: Collection) -> None:
    first = full.page(limit=1)[0][1].image_id
    with full.writer() as writer:
        writer.set_labels(first, {"label": "hand"})
        with full._engine.begin() as connection:
            connection.exec_driver_sql("UPDATE labels SET value = 'hind' WHERE value = 'hand'")
        repair = repair_rows(full)
        assert repair.restored == []
        assert repair.lost == [f"labels of 1 images ({first})"]
        assert verify_collection(full) != []
        with pytest.raises(CollectionDamaged, match=first):
            full.record(first)
        writer.delete([first])
        writer.compact()
    assert verify_collection(full) == []


def test_an_image_without_a_copy_is_named_as_lost(full: Collection) -> None:
    with full.writer() as writer:
        (late,) = writer.add([entry(100)]).ids
        with full._engine.begin() as connection:
            zero = np.zeros(6, "<f4").tobytes()
            connection.exec_driver_sql("UPDATE vectors SET vector = ? WHERE number = ?", (zero, IMAGES + 1))
        assert repair_rows(full).lost == [f"vectors of 1 images ({late})"]


@pytest.mark.parametrize("text", ["4.5.6.7.8.9", "a-label-of-one-image"])
def test_a_value_that_differs_from_its_index_is_repaired(collection: Collection, text: str) -> None:
    """A bit of the file flips, once in each place where the value is stored."""
    named = [entry(n, labels={"finding": text} if n == 3 else {"finding": "none"}) for n in range(IMAGES)]
    with collection.writer() as writer:
        writer.add([(replace(r, study=text if n == 3 else "1.2"), v) for n, (r, v) in enumerate(named)])
        writer.compact()
    collection.close()
    path = collection.folder / "collection.sqlite"
    sound = path.read_bytes()
    places = [match.start() for match in re.finditer(re.escape(text.encode()), sound)]
    assert len(places) > 1
    for place in places:
        damaged = bytearray(sound)
        damaged[place + 4] ^= 1
        path.write_bytes(damaged)
        with Collection(collection.folder) as opened:
            assert verify_collection(opened) != []
            with opened.writer():
                repair_rows(opened)
            assert verify_collection(opened) == []


def test_a_damaged_vector_is_not_searched_with(full: Collection) -> None:
    sound = full.page(limit=1)[0][1].image_id
    assert len(full.vector(sound)) == 6
    with full._engine.begin() as connection:
        other = np.zeros(6, "<f4").tobytes()
        connection.exec_driver_sql("UPDATE vectors SET vector = ? WHERE number = 1", (other,))
    with pytest.raises(CollectionDamaged, match=sound):
        full.vector(sound)
    with open_or_fallback(full.folder) as opened, pytest.raises(CollectionDamaged, match=sound):
        opened.view()


@pytest.mark.parametrize("value", [np.nan, np.inf, 2.2e37])
def test_values_that_are_not_finite_make_no_view_though_their_checksum_is_right(
    full: Collection, entries: MakeEntries, value: float
) -> None:
    """As an older version may have stored them, before it knew checksums."""
    raw = entries(0, 1)[0][1].copy()
    raw[2] = value
    with full._engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE vectors SET vector = ?, checksum = ? WHERE number = 1",
            (raw.tobytes(), vector_checksum(1, raw.tobytes())),
        )
    first = full.page(limit=1)[0][1].image_id
    with Collection(full.folder) as opened, pytest.raises(CollectionDamaged, match=first):
        opened.view()
    assert first in verify_collection(full)[0]
    with full.writer() as writer:
        with pytest.raises(CollectionDamaged, match=first):
            writer.compact()
        assert repair_rows(full).lost == []
    np.testing.assert_array_equal(full.vector(first), entries(0, 1)[0][1])
    assert len(full.view()) == IMAGES


def test_a_snapshot_that_has_changed_is_left_out(full: Collection) -> None:
    (snapshot,) = (full.folder / "snapshots").glob("*.index")
    content = bytearray(snapshot.read_bytes())
    content[200] ^= 0x10
    snapshot.write_bytes(content)
    before = full.view().gallery.vectors(np.arange(IMAGES))
    with Collection(full.folder) as opened:
        view = opened.view()
        assert "has changed" in str(opened.snapshot_problem)
        np.testing.assert_allclose(view.gallery.vectors(np.arange(IMAGES)), before, rtol=1e-5)
    with full.writer() as writer:
        writer.compact()
    with Collection(full.folder) as opened:
        assert len(opened.view()) == IMAGES
        assert opened.snapshot_problem is None


def test_a_snapshot_of_other_vectors_makes_no_view(full: Collection) -> None:
    """As if vectors had changed in memory before the file was written."""
    (snapshot,) = (full.folder / "snapshots").glob("*.index")
    content = bytearray(snapshot.read_bytes())
    content[200] ^= 0x10
    snapshot.write_bytes(content)
    with full._engine.begin() as connection:
        info = stored_snapshot.read_snapshot_info(connection, full.folder)
        assert info
        changed = info.model_copy(update={"checksum": file_checksum(snapshot)})
        metadata.set_value(connection, "snapshot", changed.model_dump_json())
    with Collection(full.folder) as opened, pytest.raises(CollectionDamaged, match="since the snapshot"):
        opened.view()


def test_changed_originals_are_named(full: Collection) -> None:
    originals.store_original(full.folder, b"a file as it was sent")
    assert verify_collection(full) == []
    (path,) = (full.folder / originals.FOLDER).iterdir()
    path.write_bytes(b"a file as it was senT")
    assert path.name in verify_collection(full)[0]


def test_a_damaged_last_good_copy_is_named(full: Collection) -> None:
    path = full.folder / last_good.NAME / "collection.sqlite"
    with closing(connect(path)) as database:
        database.execute("UPDATE vectors SET vector = zeroblob(24) WHERE number = 2")
        database.commit()
    assert "last good copy" in verify_collection(full)[0]
    with full.writer() as writer:
        writer.compact()
    assert verify_collection(full) == []


def test_a_new_checksum_never_covers_up_damage(full: Collection) -> None:
    record = full.page(limit=1)[0][1]
    with full._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE images SET width = 11 WHERE number = 1")
    with full.writer() as writer, pytest.raises(CollectionDamaged, match=record.image_id):
        writer.add([(replace(record, source_stamp="2"), entry(0)[1])])
    assert verify_collection(full) != []


def test_progress_covers_all_rows(full: Collection) -> None:
    shown: dict[str, tuple[int, int]] = {}
    report: Callable[[str, int, int], None] = lambda stage, done, total: shown.update({stage: (done, total)})  # noqa: E731
    verify_collection(full, report)
    assert shown["vectors"] == (IMAGES, IMAGES)
    assert shown["labels"] == (2 * IMAGES, 2 * IMAGES)
    assert all(done == total for done, total in shown.values())


def test_a_checksum_depends_on_every_value() -> None:
    assert row_checksum(b"1", NULL) != row_checksum(b"1", b"")
    assert row_checksum(b"1", b"2") != row_checksum(b"12", b"")


def test_a_copy_of_the_collection_verifies(full: Collection, tmp_path: Path) -> None:
    full.close()
    with Collection(shutil.copytree(full.folder, tmp_path / "copy")) as copy:
        assert verify_collection(copy) == []


def shown(collection: Collection, image_id: str) -> bytes | None:
    """The thumbnail of an image; None if it is damaged."""
    try:
        return collection.thumbnail(image_id)
    except CollectionDamaged:
        return None


def test_a_damaged_thumbnail_is_not_shown(full: Collection) -> None:
    flip(full, "thumbnails", "picture", random.Random(0))
    read = list(filter(None, (shown(full, record.image_id) for _, record in full.iterate())))
    assert len(read) == IMAGES - 1
    repair_rows(full)
    assert all(full.thumbnail(record.image_id) for _, record in full.iterate())


@pytest.mark.parametrize(
    ("table", "column", "other"),
    [
        ("labels", "value", "BLOB"),
        ("changes", "who", "BLOB"),
        ("vectors", "vector", "TEXT"),
        ("meta", "key", "BLOB"),
    ],
)
def test_a_value_of_another_type_is_seen_and_repaired(
    full: Collection, table: str, column: str, other: str
) -> None:
    """Texts and bytes with the same content are a bit apart, and have the same checksum."""
    with full._engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE {table} SET {column} = CAST({column} AS {other})")
    assert f"values of {table} are not of the type of their column" in " ".join(verify_collection(full))
    with full.writer() as writer, pytest.raises(CollectionDamaged, match="verify --repair"):
        writer.compact()
    repair = repair_rows(full)
    assert repair.restored == [f"the types of values of {table}"]
    assert verify_collection(full) == []


def test_a_lost_sum_of_the_history_is_seen_and_keeps_no_one_from_writing(full: Collection) -> None:
    with full._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE row_totals SET name = 'changer' WHERE name = 'changes'")
    with Collection(full.folder) as opened:
        with opened.writer() as writer:
            writer.set_labels_of([record.image_id for _, record in opened.iterate()][:1], {"side": "left"})
        assert "changes" in " ".join(verify_collection(opened))
        repair_rows(opened)
        assert verify_collection(opened) == []
