"""An index follows its collection, and each step can be interrupted."""

import shutil
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from cbir.errors import IndexUnavailable
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.index import follower
from cbir.store.index.port import IndexScope
from cbir.store.records.filter_conditions import PatientScope, parse_filters
from cbir.store.upkeep.repair import repair_folder
from tests.cbir.store.index.followed import Followed, make_entries


def test_added_deleted_and_relabelled_images(followed: Followed):
    followed.filled()
    followed.require_same()
    edition = followed.index.status().edition
    with followed.collection.writer() as writer:
        writer.add(make_entries(300, 340))
        ids = followed.ids()
        writer.delete([*ids[:20], ids[-1]])
        writer.label_images("part", dict.fromkeys(ids[40:60], "wrist"))
    assert followed.index.status().lacking == 39
    assert followed.index.follower.follow()
    followed.require_same()
    status = followed.index.status()
    assert (status.edition, status.lacking, status.behind) == (edition, 0, 0)
    followed.require_exact([IndexScope(where=parse_filters(["part=wrist"])), IndexScope()])


def test_another_process_goes_on_from_the_position(followed: Followed, monkeypatch: pytest.MonkeyPatch):
    followed.filled()
    with followed.collection.writer() as writer:
        writer.add(make_entries(300, 310))
    put: list[int] = []
    counted = follower.put_images
    monkeypatch.setattr(follower, "put_images", lambda *args: (put.append(len(args[3])), counted(*args)))
    followed.index = followed.opened()
    assert followed.index.follower.follow()
    followed.require_same()
    assert put == [10]


def test_snapshot_written_before_the_index_has_followed(followed: Followed):
    followed.filled()
    with followed.collection.writer() as writer:
        writer.add(make_entries(300, 320))
        writer.delete([*followed.ids()[5:15], *followed.ids()[-3:]])
        writer.compact()  # SQLite then no longer lists what was deleted
    followed.index = followed.opened()
    assert followed.index.follower.follow()
    followed.require_same()


def test_images_put_before_a_crash_and_deleted_before_the_next_start(followed: Followed):
    followed.filled()
    with followed.collection.writer() as writer:
        writer.add(make_entries(300, 320))
        opened = followed.index.current.opened()
        records, numbers, raw = followed.index.feed.added(300, 400)
        follower.put_images(opened.index, opened.statistics, records, numbers, raw)  # but no position
        writer.delete(followed.ids()[-10:])
        writer.compact()
    followed.index = followed.opened()
    assert followed.index.follower.follow()
    followed.require_same()


def test_new_statistics_make_a_new_edition(followed: Followed):
    followed.filled()
    before = followed.index.status().edition
    with followed.collection.writer() as writer:
        writer.add(make_entries(300, 400))
        writer.compact(refit=True)
    followed.require_exact([IndexScope()])  # by the edition before, whose statistics normalise
    assert followed.index.follower.follow()
    followed.require_same()
    assert followed.index.status().edition != before
    followed.require_exact([IndexScope()])


def test_erased_patient_leaves_the_index(followed: Followed):
    followed.filled()
    key = f"{3:032x}"
    with followed.collection.writer() as writer:
        erased = followed.collection.numbers_of(writer.images_of(key))
        writer.erase_patient([key])
    assert len(followed.index.vectors.vectors(erased)[0]) == 0  # before it has followed
    assert followed.index.follower.follow()
    followed.require_same()
    record = followed.index.current.editions.read()
    assert (record.filling, record.dropped) == (None, ())


def test_deleted_images_leave_the_present_edition_while_the_next_is_filled(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
):
    followed.filled()
    present = followed.index.current.opened()
    monkeypatch.setattr(follower, "FOLLOW_SECONDS", -1.0)
    seen: list[int] = []

    def delete_one(images: int, total: int) -> None:
        if images == 300:
            with followed.collection.writer() as writer:
                writer.delete(followed.ids()[7:8])
        seen.append(len(present.index))

    assert followed.index.follower.follow(rebuild=True, progress=delete_one)
    assert followed.index.status().images == 299
    followed.require_same()


def test_an_interrupted_rebuild_is_dropped(followed: Followed, monkeypatch: pytest.MonkeyPatch):
    followed.filled(30)
    name = followed.index.current.editions.read().current
    with monkeypatch.context() as patch:
        patch.setattr(type(followed.index.current.opened().index), "finish", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            followed.index.follower.follow(rebuild=True)
    assert followed.index.current.editions.read().filling
    followed.index = followed.opened()  # as another process
    assert followed.index.follower.follow()
    record = followed.index.current.editions.read()
    assert (record.current, record.filling, record.dropped) == (name, None, ())
    followed.require_same()


def _interrupt(_index: object) -> None:
    raise KeyboardInterrupt


def test_interrupted_fill(followed: Followed, monkeypatch: pytest.MonkeyPatch):
    followed.filled(100)
    before = followed.index.status().edition
    monkeypatch.setattr(follower, "SAVED_SECONDS", -1.0)

    def fail(images: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        followed.index.follower.follow(rebuild=True, progress=fail)
    filling = followed.index.current.editions.read().filling
    assert filling
    assert followed.index.status().edition == before
    followed.require_exact([IndexScope()])
    followed.index = followed.opened()
    assert followed.index.follower.follow(rebuild=True)
    followed.require_same()
    record = followed.index.current.editions.read()
    assert (record.filling, record.dropped) == (None, ())
    assert record.current not in (before, filling.name)


def test_interrupted_fill_whose_images_are_lost(followed: Followed, monkeypatch: pytest.MonkeyPatch):
    followed.filled(60)
    index_type = type(followed.index.current.opened().index)
    assert followed.index.follower.drop()
    monkeypatch.setattr(follower, "SAVED_SECONDS", -1.0)
    with monkeypatch.context() as patch:
        patch.setattr(index_type, "finish", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            followed.index.follower.follow()
    filling = followed.index.current.editions.read().filling
    assert filling
    followed.index.current.engine.drop(filling.name)  # as another version of the program does
    followed.index.current.engine.drop(filling.name)
    followed.index = followed.opened()
    assert followed.index.follower.follow()
    followed.require_same()
    assert followed.index.current.editions.read().filling is None


def test_attributes_when_the_history_was_pruned(followed: Followed):
    followed.filled()
    with followed.collection.writer() as writer:
        writer.label_images("part", dict.fromkeys(followed.ids()[10:30], "wrist"))
        writer.compact(history_days=0)
    assert followed.index.follower.follow()
    opened = followed.index.current.opened()
    scope = IndexScope(where=parse_filters(["part=wrist"]))
    (found,) = opened.index.nearest(np.zeros((1, 6), np.float32), 50, scope)
    assert sorted(found.numbers.tolist()) == list(range(11, 31))


def test_other_patient_and_other_study(followed: Followed):
    followed.filled()
    (record, vector), *_ = make_entries(17, 18)
    with followed.collection.writer() as writer:
        assert writer.relabel("/images/16.dcm", {}, patient_key="f" * 32)
        writer.add([(replace(record, source_stamp="2", study="1.2.99", patient_key="f" * 32), vector)])
    scopes = [
        IndexScope(of_patients=(PatientScope("f" * 32),)),
        IndexScope(of_patients=(PatientScope("f" * 32, besides="1.2.99"),)),
        IndexScope(without_patients=("f" * 32,)),
    ]
    followed.require_exact(scopes)
    assert followed.index.follower.follow()
    followed.require_same()
    followed.require_exact(scopes)
    opened = followed.index.current.opened()
    (found,) = opened.index.nearest(np.zeros((1, 6), np.float32), 50, scopes[0])
    assert sorted(found.numbers.tolist()) == [17, 18]


def test_collection_without_statistics_has_no_index(followed: Followed):
    assert followed.index.follower.follow()
    assert followed.index.status().problem
    with pytest.raises(IndexUnavailable, match="not built yet"):
        followed.index.vectors.nearest(np.zeros((1, 6), np.float32), 1)
    with pytest.raises(IndexUnavailable):
        _ = followed.index.vectors.statistics


def test_emptied_collection(followed: Followed):
    followed.filled(50)
    with followed.collection.writer() as writer:
        for patient in range(7):
            writer.erase_patient([f"{patient:032x}"])
    assert followed.index.follower.follow()
    assert followed.index.status().edition is None
    assert followed.index.current.editions.read().dropped == ()


def test_one_process_follows_at_a_time(followed: Followed):
    followed.filled(50)
    with followed.index.current.editions.lock() as held:
        assert held
        assert not followed.opened().follower.follow()
        assert not followed.opened().follower.drop()
    assert followed.index.follower.drop()
    assert followed.index.status().edition is None


def test_lost_edition_is_filled_again(followed: Followed):
    followed.filled(60)
    opened = followed.index.current.opened()
    opened.index.drop()
    followed.index = followed.opened()
    assert followed.index.follower.follow()
    followed.require_same()
    assert followed.index.status().edition != opened.name


def test_nothing_new_costs_no_lock(followed: Followed):
    followed.filled(60)
    assert followed.index.follower.follow()  # counts the images
    locked = followed.index.current.editions.lock
    with locked() as held:
        assert held
        assert followed.index.follower.follow()
        assert not followed.index.follower.follow(rebuild=True)
        assert not followed.opened().follower.follow()
        with followed.collection.writer() as writer:
            writer.add(make_entries(60, 61))
        assert not followed.index.follower.follow()
    assert followed.index.follower.follow()
    followed.require_same()
    assert followed.opened().follower.follow(rebuild=True)  # by another process
    followed.index.follower.follow()
    followed.require_same()


def test_index_with_another_number_of_images_is_made_again(followed: Followed):
    followed.filled(60)
    opened = followed.index.current.opened()
    opened.index.delete(np.array([7]))
    position = opened.index.position()
    assert position
    opened.index.set_position(position)
    followed.index = followed.opened()
    assert followed.index.follower.follow()
    followed.require_same()


def test_damaged_files_are_made_again(hnsw: Followed):
    hnsw.filled(60)
    (file,) = (hnsw.collection.folder / "vector_index").glob("*.hnsw")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 255
    file.write_bytes(content)
    hnsw.index = hnsw.opened()
    assert hnsw.index.follower.follow()
    hnsw.require_same()
    (file,) = (hnsw.collection.folder / "vector_index").glob("*.json")
    file.write_text("{")
    hnsw.index = hnsw.opened()
    assert hnsw.index.follower.follow()
    hnsw.require_same()
    assert len(list(file.parent.glob("*.hnsw"))) == 1


def test_copy_of_the_folder_has_an_index_of_its_own(hnsw: Followed):
    hnsw.filled(60)
    copied = hnsw.collection.folder.with_name("copied")
    shutil.copytree(hnsw.collection.folder, copied)
    with Collection(copied) as collection:
        other = Followed(collection, hnsw.settings)
        assert other.index.status().edition is None
        assert other.index.follower.follow()
        other.require_same()
        assert other.index.status().edition != hnsw.index.status().edition
    assert hnsw.opened().status().images == 60


@pytest.mark.slow
@pytest.mark.parametrize("followed", ["pgvector"], indirect=True)
@pytest.mark.parametrize("kind", ["pgvector", "hnsw"])
def test_database_that_was_restored_to_an_earlier_state(followed: Followed, kind: str):
    followed = Followed(followed.collection, Settings(index=kind))
    followed.filled(50)
    followed.require_exact([IndexScope()])
    database = followed.collection.postgresql()
    assert database
    with database.engine.begin() as connection:  # a restore, then another change in place of the last
        last = "(SELECT max(change) FROM changes)"
        connection.exec_driver_sql(f"UPDATE changes SET token = gen_random_uuid() WHERE change = {last}")
    with pytest.raises(IndexUnavailable, match="later state"):
        followed.index.vectors.sample(5)
    before = followed.index.status().edition
    assert followed.index.follower.follow()
    followed.require_same()
    assert followed.index.status().edition != before
    followed.require_exact([IndexScope()])


def test_repaired_labels_reach_the_index(followed: Followed):
    if followed.collection.postgresql():
        pytest.skip("a collection in PostgreSQL is not repaired")
    followed.filled(60)
    with followed.collection.writer() as writer:
        writer.label_images("part", dict.fromkeys(followed.ids()[:20], "wrist"))
        writer.compact()  # keeps a good copy
    with sqlite3.connect(followed.collection.folder / "collection.sqlite") as connection:
        for (trigger,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute("DELETE FROM labels WHERE number = 7 AND key = 'part'")
    connection.close()
    assert followed.index.follower.follow(rebuild=True)  # by what is left
    repaired = repair_folder(followed.collection.folder)
    assert repaired.restored, repaired
    assert followed.index.follower.follow()
    followed.require_same()
    opened = followed.index.current.opened()
    scope = IndexScope(where=parse_filters(["part=wrist"]))
    (found,) = opened.index.nearest(np.zeros((1, 6), np.float32), 50, scope)
    assert sorted(found.numbers.tolist()) == list(range(1, 21))


def test_deleted_images_leave_the_files(hnsw: Followed):
    hnsw.filled(300)
    numbers = np.array([5, 305])
    with hnsw.collection.writer() as writer:
        writer.add(make_entries(300, 310))
    assert hnsw.index.follower.follow()
    gone = hnsw.index.vectors.vectors(numbers)[1]
    (file,) = (hnsw.collection.folder / "vector_index").glob("*.hnsw")
    inode = file.stat().st_ino
    assert (
        sum(vector.tobytes() in path.read_bytes() for vector in gone for path in file.parent.iterdir()) == 2
    )
    with hnsw.collection.writer() as writer:
        writer.delete([record.image_id for record in hnsw.collection.records(numbers.tolist()).values()])
    assert hnsw.index.follower.follow()
    for path in file.parent.iterdir():
        assert not any(vector.tobytes() in path.read_bytes() for vector in gone)
    assert file.stat().st_ino == inode  # overwritten in place
    hnsw.index = hnsw.opened()
    hnsw.require_same()
