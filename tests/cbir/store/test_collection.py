"""Creating, reading and following a collection."""

import csv
import json
import sqlite3
import threading

import numpy as np
import pytest

from cbir.errors import CollectionBusy, CollectionDamaged, InvalidInput, NotFound
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.base.statements import row_checksum
from cbir.store.records.filter_conditions import parse_filter
from cbir.store.records.records import add_labels
from cbir.store.safety.database_files import UNFINISHED
from cbir.store.upkeep import collection_copy
from cbir.store.upkeep.collection_copy import export_collection
from cbir.store.views import collection_view


def vector_of(view, place):
    return view.gallery.vectors(np.array([place]))[0]


def test_an_empty_collection_has_an_empty_view(collection):
    assert len(collection) == 0
    view = collection.view()
    assert len(view) == 0
    assert view.gallery.dimensions == 6
    assert collection.info()["images"] == 0


def test_what_is_added_is_read_back(collection, entries):
    given = entries(0, 5, label="knee")
    with collection.writer() as writer:
        added = writer.add(given)
    assert len(added.ids) == len(collection) == 5
    for (record, vector), image_id in zip(given, added.ids, strict=True):
        assert collection.record(image_id).labels == {"label": "knee"}
        assert collection.record(image_id).source == record.source
        np.testing.assert_array_equal(collection.vector(image_id), vector)


def test_vectors_of_some_images_come_in_their_order_or_not_at_all(collection, entries):
    with collection.writer() as writer:
        ids = writer.add(entries(0, 9)).ids
    numbers = np.array(sorted(collection.image_ids()), np.int64)[[7, 0, 3]]
    stored = np.stack([vector for _, vector in entries(0, 9)])
    np.testing.assert_array_equal(collection.raw_vectors(numbers), stored[[7, 0, 3]])
    with collection.writer() as writer:
        writer.delete([ids[3]])
    with pytest.raises(NotFound, match="1 of the images have been deleted meanwhile"):
        collection.raw_vectors(numbers)


def test_view_normalises_with_the_collections_own_statistics(collection, entries):
    given = entries(0, 50)
    raw = np.array([vector for _, vector in given])
    with collection.writer() as writer:
        writer.add(given)
        writer.finish()
    gallery = collection.view().gallery
    expected = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    np.testing.assert_allclose(gallery.vectors(np.arange(50)), expected, atol=2e-5)


def test_adding_changes_neither_statistics_nor_what_is_stored(collection, entries):
    with collection.writer() as writer:
        writer.add(entries(0, 50))
        writer.finish()
    first = collection.view()
    before = vector_of(first, 7)
    with collection.writer() as writer:
        writer.add(entries(50, 60))
        writer.finish()
    second = collection.view()
    np.testing.assert_array_equal(vector_of(second, 7), before)
    assert second.statistics.fitted_on == 50
    assert len(second) == 60
    assert len(first) == 50  # a view never changes under a running query


def test_refit_learns_from_all(collection, entries):
    with collection.writer() as writer:
        writer.add(entries(0, 20))
        writer.finish()
        writer.add(entries(20, 40))
        writer.compact(refit=True)
    raw = np.array([vector for _, vector in entries(0, 40)])
    view = collection.view()
    assert view.statistics.fitted_on == 40
    np.testing.assert_allclose(view.statistics.mean, raw.mean(axis=0), rtol=1e-6)


def test_one_copy_of_the_vectors_is_mapped_from_the_snapshot(collection, entries):
    with collection.writer() as writer:
        writer.add(entries(0, 100))
        writer.finish()
    block = Collection(collection.folder).view().gallery.blocks[0]
    assert not block.flags.owndata
    assert block.flags.aligned
    assert block.ctypes.data % 64 == 0


def test_a_reader_follows_another_writer(collection, entries):
    reader = Collection(collection.folder)
    assert len(reader.view()) == 0
    with collection.writer() as writer:
        ids = writer.add(entries(0, 10)).ids
        assert len(reader.view()) == 10
        writer.finish()
        assert len(reader.view()) == 10
        writer.add(entries(10, 12))
        view = reader.view()
        assert len(view) == 12
        assert len(view.gallery.blocks) == 2
        writer.delete(ids[:3])
        view = reader.view()
        assert len(view) == 9
        assert view.rows.tolist() == list(range(3, 12))
        writer.add(entries(12, 13))
        assert reader.view().rows.tolist() == list(range(3, 13))
        writer.compact()
        view = reader.view()
        assert view.rows is None
        assert len(view) == 10
    raw = np.array([vector for _, vector in entries(3, 13)])
    expected = view.statistics.normalise(raw)
    np.testing.assert_array_equal(view.gallery.vectors(np.arange(10)), expected)


@pytest.mark.slow
def test_many_threads_read_while_one_writes(collection, entries):
    reader = Collection(collection.folder)
    failures: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        try:
            while not stop.is_set():
                view = reader.view()
                assert len(view.gallery.ids) == sum(len(block) for block in view.gallery.blocks)
                assert np.isfinite(view.gallery.distances(np.zeros(6, np.float32))).all()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    with collection.writer() as writer:
        for start in range(0, 200, 10):
            ids = writer.add(entries(start, start + 10)).ids
            writer.delete(ids[:2])
            writer.finish()
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(reader.view()) == 160


def test_one_writer_at_a_time(collection):
    with (
        collection.writer(),
        pytest.raises(CollectionBusy, match="another process"),
        Collection(collection.folder).writer(),
    ):
        pass
    with collection.writer():
        pass  # the lock was let go of


def test_a_missing_collection_says_how_to_make_one(tmp_path):
    with pytest.raises(NotFound, match="cbir index"):
        Collection(tmp_path / "none")


def test_a_collection_is_not_made_twice_nor_over_a_file(collection, tmp_path):
    with pytest.raises(InvalidInput, match="already"):
        Collection.create(collection.folder, profiles.get("tamura"))
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidInput, match="needs a folder"):
        Collection.create(tmp_path / "file", profiles.get("tamura"))


def test_a_creation_cut_short_can_be_done_again(tmp_path):
    folder = tmp_path / "collection"
    folder.mkdir()
    sqlite3.connect(folder / "collection.sqlite").execute("PRAGMA journal_mode = WAL").close()
    (folder / UNFINISHED).touch()
    with pytest.raises(NotFound):
        Collection(folder)
    assert len(Collection.create(folder, profiles.get("tamura"))) == 0


def test_a_damaged_database_is_named_as_such(collection):
    collection.close()
    (collection.folder / "collection.sqlite").write_bytes(b"no database at all" * 1000)
    with pytest.raises(CollectionDamaged, match="database"):
        Collection(collection.folder)


def test_another_storage_format_is_refused_with_what_to_do(collection):
    with sqlite3.connect(collection.folder / "collection.sqlite") as database:
        checksum = row_checksum(b"format", b"99")
        database.execute("UPDATE meta SET value = '99', checksum = ? WHERE key = 'format'", (checksum,))
    with pytest.raises(InvalidInput, match="format 99"):
        Collection(collection.folder)


@pytest.mark.parametrize("harm", ["missing", "cut", "garbage"])
def test_a_view_does_without_a_harmed_snapshot(collection, entries, harm):
    with collection.writer() as writer:
        writer.add(entries(0, 30))
        writer.finish()
    before = collection.view().gallery.vectors(np.arange(30))
    (snapshot,) = (collection.folder / "snapshots").glob("*.index")
    if harm == "missing":
        snapshot.unlink()
    elif harm == "cut":
        snapshot.write_bytes(snapshot.read_bytes()[:100])
    else:
        snapshot.write_bytes(bytes(snapshot.stat().st_size))
    reader = Collection(collection.folder)
    view = reader.view()
    assert reader.snapshot_problem
    np.testing.assert_array_equal(view.gallery.vectors(np.arange(30)), before)
    with reader.writer() as writer:
        writer.compact()
    assert len(reader.view()) == 30
    assert reader.snapshot_problem is None


def test_selecting_rows_by_label_patient_and_picture(collection, entries):
    with collection.writer() as writer:
        writer.add(entries(0, 4, patient="a", modality="CT", age="7"))
        writer.add(entries(4, 8, patient="b", modality="MR", age="10"))
        ids = writer.add(entries(8, 10, modality="CT", age="old")).ids
        writer.finish()
        writer.delete(ids[:1])
    view = collection.view()

    def rows(*where: str) -> list[int]:
        found = collection.select_rows(view, [parse_filter(text) for text in where])
        return list(range(len(view.gallery))) if found is None else found.tolist()

    assert rows() == [0, 1, 2, 3, 4, 5, 6, 7, 9]
    assert rows("modality=CT") == [0, 1, 2, 3, 9]
    assert rows("modality!=CT") == [4, 5, 6, 7]
    assert rows("age>=7", "age<10") == [0, 1, 2, 3]
    assert rows("age>7") == [4, 5, 6, 7]
    assert rows("modality=CT", "age=10") == []
    assert rows("nothing=here") == []
    patient = collection.record(entries(0, 1)[0][0].content_hash).patient_key
    assert collection.excluded_rows(view, None, patient).tolist() == [0, 1, 2, 3]


def test_a_patient_is_excluded_by_key_or_by_identifier(collection, entries):
    secret = collection.secret
    named = [(add_labels(record, {"patient": "Jane 1"}, secret), vector) for record, vector in entries(0, 2)]
    with collection.writer() as writer:
        ids = writer.add(named + entries(2, 4)).ids
    record = collection.record(ids[0])
    assert "patient" not in record.labels
    assert record.patient_key
    assert "Jane" not in record.patient_key
    view = collection.view()
    for key in ("Jane 1", record.patient_key):
        found = collection.patient_key_of(key)
        assert collection.excluded_rows(view, None, found).tolist() == [0, 1]


def test_patient_keys_of_two_collections_do_not_match(collection, tmp_path):
    other = Collection.create(tmp_path / "other", profiles.get("tamura"))
    assert other.secret != collection.secret
    assert (other.folder / "patient.key").stat().st_mode & 0o077 == 0


def test_export_writes_what_is_there(collection, entries, tmp_path):
    with collection.writer() as writer:
        ids = writer.add(entries(0, 5, label="knee, left")).ids
        writer.delete(ids[:1])
    out = tmp_path / "out"
    assert export_collection(collection, out) == 4
    rows = list(csv.DictReader((out / "records.csv").read_text().splitlines()))
    assert [row["image_id"] for row in rows] == list(ids[1:])
    assert {row["label"] for row in rows} == {"knee, left"}
    np.testing.assert_array_equal(np.load(out / "vectors.npy"), [vector for _, vector in entries(1, 5)])
    assert json.loads((out / "profile.json").read_text())["descriptor"] == "tamura"
    with pytest.raises(InvalidInput, match="not an empty folder"):
        export_collection(collection, out)


def test_export_by_pages_writes_the_same(collection, entries, tmp_path, monkeypatch):
    with collection.writer() as writer:
        ids = writer.add(entries(0, 11)).ids
        writer.delete([ids[1]])
    for pages in ("one", "many"):
        export_collection(collection, tmp_path / pages)
        monkeypatch.setattr(collection_view, "PAGE", 4)
        monkeypatch.setattr(collection_copy, "PAGE", 3)
    stored = np.stack([vector for number, (_, vector) in enumerate(entries(0, 11)) if number != 1])
    for pages in ("one", "many"):
        np.testing.assert_array_equal(np.load(tmp_path / pages / "vectors.npy"), stored)


def test_values_of_a_label_come_most_frequent_first(collection, entries):
    assert collection.label_values("label", 3) == []
    with collection.writer() as writer:
        writer.add(entries(0, 2, label="knee") + entries(2, 5, label="hand") + entries(5, 7, label="foot"))
    assert collection.label_values("label", 9) == [("hand", 3), ("foot", 2), ("knee", 2)]
    assert collection.label_values("label", 1) == [("hand", 3)]
    assert collection.label_values("nobody", 9) == []
