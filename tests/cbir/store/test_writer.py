"""Adding, changing, deleting, erasing."""

import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from cbir.errors import CollectionBusy
from cbir.store import Collection
from cbir.store.base import schema
from cbir.store.upkeep.verify import verify_collection


def bytes_of(folder):
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_equal_pictures_are_added_once_unless_asked(collection, entries):
    with collection.writer() as writer:
        first = writer.add(entries(0, 3) + entries(0, 1))
        again = writer.add(entries(0, 3))
        assert (len(first.ids), first.duplicates) == (3, 1)
        assert (len(again.ids), again.duplicates) == (0, 3)
        elsewhere = [(replace(record, source="/other/copy.png"), v) for record, v in entries(0, 1)]
        more = writer.add(elsewhere + elsewhere, duplicates=True)
    content = entries(0, 1)[0][0].content_hash
    assert more.ids == (f"{content}-2", f"{content}-3")
    assert len(collection) == 5


def test_adding_nothing_changes_nothing(collection):
    with collection.writer() as writer:
        assert writer.add([]).ids == ()
    assert collection.generation() == 0


def test_a_changed_source_replaces_what_it_gave_before(collection, entries):
    (old, vector), (new, other) = entries(0, 2)
    with collection.writer() as writer:
        (old_id,) = writer.add([(old, vector)]).ids
        (new_id,) = writer.add([(replace(new, source=old.source, source_stamp="2"), other)]).ids
        assert writer.source_stamps([old.source]) == {old.source: "2"}
    assert len(collection) == 1
    assert new_id != old_id
    assert len(collection.view()) == 1


def test_a_touched_source_keeps_its_image_and_takes_over_what_is_said_of_it(collection, entries):
    ((record, vector),) = entries(0, 1, label="knee")
    with collection.writer() as writer:
        (image_id,) = writer.add([(record, vector)]).ids
        told = replace(record, source_stamp="2", patient_key="corrected", labels={"label": "hip"})
        added = writer.add([(told, vector)], duplicates=True)
        assert (added.updated, added.duplicates, added.ids) == (1, 0, ())
        assert writer.source_stamps([record.source]) == {record.source: "2"}
    assert len(collection) == 1
    now = collection.record(image_id)
    assert (now.patient_key, now.labels) == ("corrected", {"label": "hip"})


def test_an_image_whose_file_moved_is_found_at_its_new_place(collection, entries):
    ((record, vector),) = entries(0, 1)
    with collection.writer() as writer:
        (image_id,) = writer.add([(record, vector)]).ids
        moved = replace(record, source="/elsewhere/0.png")
        assert writer.add([(moved, vector)]).duplicates == 1
    assert collection.record(image_id).source == "/elsewhere/0.png"


def test_deleted_images_stay_deleted_until_restored(collection, entries):
    with collection.writer() as writer:
        ids = writer.add(entries(0, 3)).ids
        assert writer.delete([ids[0], "unknown"]) == [ids[0]]
        assert writer.delete([ids[0]]) == []
        again = writer.add(entries(0, 1))
        assert (again.ids, again.deleted_earlier) == ((), 1)
        assert writer.add(entries(0, 1), restore=True).ids == (ids[0],)
        writer.delete([ids[1]])
    assert len(collection) == 2
    assert len(collection.view()) == 2


def test_relabelling_touches_only_what_changed(collection, entries):
    ((record, vector),) = entries(0, 1, label="knee", grade="1")
    with collection.writer() as writer:
        (image_id,) = writer.add([(record, vector)]).ids
        assert writer.relabel(record.source, {"grade": "2", "side": "left"})
        assert not writer.relabel(record.source, {"grade": "2"})
        assert not writer.relabel("/unknown", {"grade": "2"})
    assert collection.record(image_id).labels == {"label": "knee", "grade": "2", "side": "left"}


def test_erasing_a_patient_leaves_no_trace_in_any_file(collection, entries):
    secret_label = "AFindingOnlyThisPatientHas"
    with collection.writer() as writer:
        writer.add(entries(0, 20, patient="other"))
        writer.add(entries(20, 23, patient="key-of-the-erased", finding=secret_label))
        writer.finish()
        traces = [b"key-of-the-erased", secret_label.encode(), b"/images/21.png"]
        traces += [entries(21, 22)[0][1].astype("<f4").tobytes()]
        before = bytes_of(collection.folder)
        assert all(trace in before for trace in traces)
        assert writer.erase_patient(["key-of-the-erased"]) == 3
        assert writer.erase_patient(["key-of-the-erased"]) == 0
    collection.close()
    after = bytes_of(collection.folder)
    assert not any(trace in after for trace in traces)
    assert len(Collection(collection.folder)) == 20
    assert len(Collection(collection.folder).view()) == 20


def test_erasing_reaches_what_was_deleted_before_and_the_statistics(collection, entries):
    with collection.writer() as writer:
        kept = writer.add(entries(0, 1, patient="other")).ids
        (deleted,) = writer.add(entries(1, 2, patient="erased")).ids
        writer.add(entries(2, 3, patient="erased"))
        writer.finish()
        writer.delete([deleted])
        assert writer.erase_patient(["erased"]) == 1
        assert writer.add(entries(1, 3)).deleted_earlier == 2
    fitted = collection.statistics()
    np.testing.assert_array_equal(fitted.mean, collection.vector(kept[0]))
    collection.close()
    hidden = entries(2, 3)[0][0].content_hash.encode()
    assert hidden not in bytes_of(collection.folder)


def test_erasing_says_when_a_reader_still_holds_old_pages(collection, entries, monkeypatch):
    pragmas = [pragma for pragma in schema.PRAGMAS if not pragma.startswith("busy_timeout")]
    monkeypatch.setattr(schema, "PRAGMAS", (*pragmas, "busy_timeout=100"))  # instead of ten seconds
    with Collection(collection.folder) as opened, opened.writer() as writer:
        writer.add(entries(0, 3, patient="key-77"))
        reader = sqlite3.connect(collection.folder / "collection.sqlite", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM images").fetchone()
        with pytest.raises(CollectionBusy, match="again"):
            writer.erase_patient(["key-77"])
        reader.close()
        assert writer.erase_patient(["key-77"]) == 0
    assert b"key-77" not in bytes_of(collection.folder)


def test_numbers_are_never_given_twice(collection, entries):
    with collection.writer() as writer:
        first = writer.add(entries(0, 3)).ids
        before = set(collection.view().gallery.ids.tolist())
        writer.delete(first)
        writer.compact()
        writer.add(entries(3, 6))
    assert not before & set(collection.view().gallery.ids.tolist())


def test_compacting_gives_space_back(collection, entries):
    with collection.writer() as writer:
        ids = writer.add(entries(0, 2000)).ids
        writer.compact()
        before = collection.info()["bytes_on_disk"]
        writer.delete(ids[:1900])
        writer.compact()
    assert (
        collection.info()["bytes_on_disk"] < before * 0.6
    )  # the rest remembers what was deleted, and that it was
    assert sorted(file.suffix for file in (collection.folder / "snapshots").iterdir()) == [
        ".index",
        ".neighbours",
    ]
    assert verify_collection(collection) == []


def test_an_empty_collection_can_be_compacted(collection, entries):
    with collection.writer() as writer:
        writer.compact()
        assert len(collection.view()) == 0
        writer.delete(writer.add(entries(0, 2)).ids)
        writer.compact()
    assert len(collection.view()) == 0
    assert verify_collection(collection) == []


def test_finish_renews_the_snapshot_only_when_much_has_changed(collection, entries):
    with collection.writer() as writer:
        writer.add(entries(0, 100))
        writer.finish()
        first = collection.info()["snapshot"]
        writer.add(entries(100, 102))
        writer.finish()
        assert collection.info()["snapshot"] == first
        writer.add(entries(102, 120))
        writer.finish()
    assert collection.info()["snapshot"]["images"] == 120


def test_verify_finds_damage(collection, entries):
    with collection.writer() as writer:
        writer.add(entries(0, 50))
        writer.finish()
    assert verify_collection(collection) == []
    (snapshot,) = (collection.folder / "snapshots").glob("*.index")
    content = bytearray(snapshot.read_bytes())
    content[500] ^= 1
    snapshot.write_bytes(content)
    assert "has changed since it was written" in verify_collection(collection)[0]
    with collection.writer() as writer:
        writer.compact()
    assert verify_collection(collection) == []
    with collection._engine.begin() as connection:
        nan = np.full(6, np.nan, "<f4").tobytes()
        connection.exec_driver_sql("UPDATE vectors SET vector = ? WHERE number = 3", (nan,))
    assert "not finite" in verify_collection(collection)[0]
    with collection._engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM vectors WHERE number = 3")
    assert "have no vector" in verify_collection(collection)[0]


def test_a_failed_batch_leaves_nothing_behind(collection, entries):
    good, bad = entries(0, 2)
    with collection.writer() as writer:
        with pytest.raises(ValueError, match="could not convert"):
            writer.add([good, (bad[0], "no vector")])
        assert len(collection) == 0
        assert collection.generation() == 0
        writer.add([good])
    assert len(collection) == 1


def test_erasing_the_only_patient_leaves_neither_snapshot_nor_statistics(collection, entries):
    with collection.writer() as writer:
        writer.add(entries(0, 3, patient="only"))
        writer.finish()
        assert len(collection.view()) == 3
        assert writer.erase_patient(["only"]) == 3
    assert collection.statistics() is None
    assert list((collection.folder / "snapshots").iterdir()) == []
    assert len(collection.view()) == 0
    assert verify_collection(collection) == []
