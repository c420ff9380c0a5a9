"""What a collection remembers of its changes, of files sent to it and of answers given."""

import time
from dataclasses import replace

import pytest

from cbir.store import Collection
from cbir.store.records import add_transaction, label_changes, originals
from cbir.store.records.label_changes import Change
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.conftest import MakeEntries, entry


def told(collection: Collection, **given) -> list[Change]:
    return collection.history(**given)


def test_every_change_is_told_newest_first(collection, entries):
    with collection.writer("ann") as writer:
        ids = writer.add(entries(0, 5)).ids
        writer.add(entries(0, 5))  # all there: nothing changes
        writer.set_labels(ids[0], {"view": "AP"})
        writer.set_labels(ids[0], {"view": "AP"})
    with collection.writer() as writer:
        writer.delete(ids[1:3])
        writer.set_profile(collection.profile)
    profile, deleted, labelled, added = told(collection)
    assert (profile.what, profile.images) == ("profile", 0)
    assert (deleted.what, deleted.images, set(deleted.image_ids)) == ("deleted", 2, set(ids[1:3]))
    assert (labelled.what, labelled.who, labelled.image_ids) == ("labelled", "ann", (ids[0],))
    assert (added.what, added.images, added.image_ids) == ("added", 5, (ids[0], *ids[3:]))
    assert told(collection, limit=1) == [profile]
    assert told(collection, before=labelled.change) == [added]


def test_erasing_a_patient_takes_its_images_out(collection, entries):
    with collection.writer() as writer:
        writer.add(entries(0, 4, patient="a" * 32))
        record = next(record for _, record in collection.iterate() if record.patient_key)
        writer.set_labels(record.image_id, {"view": "AP"})
        writer.erase_patient([record.patient_key])
    told_of = told(collection)
    assert told_of[0].what == "erased"
    assert told_of[0].image_ids == ()
    assert record.image_id not in str(told_of)


def test_labels_are_set_and_taken_away(collection, entries):
    with collection.writer() as writer:
        image_id = writer.add(entries(0, 1)).ids[0]
        before = collection.record(image_id).labels
        assert writer.set_labels(image_id, {"view": "AP", "grade": "2"})
        assert collection.record(image_id).labels == before | {"view": "AP", "grade": "2"}
        assert writer.set_labels(image_id, {"view": None, "never": None})
        assert collection.record(image_id).labels == before | {"grade": "2"}
        assert not writer.set_labels(image_id, {"never": None})
        assert not writer.set_labels("none-such", {"view": "AP"})


def test_outcomes_of_an_addition(collection, entries):
    with collection.writer() as writer:
        first = writer.add(entries(0, 2))
        assert [outcome for outcome, _ in first.outcomes] == ["added", "added"]
        writer.delete([first.ids[0]])
        second = writer.add(entries(0, 3))
    assert second.outcomes[0] == ("deleted earlier", None)
    assert second.outcomes[1] == ("duplicate", first.ids[1])
    assert second.outcomes[2][0] == "added"


def test_pages_follow_each_other(collection, entries):
    with collection.writer() as writer:
        ids = list(writer.add(entries(0, 7)).ids)
    found, after = [], 0
    while part := collection.page(after, 3):
        found += [record.image_id for _, record in part]
        after = part[-1][0]
    assert found == ids


def test_originals_are_kept_and_swept(collection):
    folder = collection.folder
    one, two = originals.store_original(folder, b"one"), originals.store_original(folder, b"two")
    assert originals.store_original(folder, b"one") == one == originals.source_of(b"one")
    record, vector = entry(1)
    kept = originals.original_path(folder, one)
    assert kept is not None
    assert kept.read_bytes() == b"one"
    assert originals.original_path(folder, "/archive/a.png") is None
    with collection.writer() as writer:
        writer.add([(replace(record, source=two), vector)])
    with collection._engine.connect() as connection:
        originals.sweep_originals(connection, folder)
    assert not kept.exists()
    originals.erase_originals(folder, [two, two, "/archive/a.png"])
    assert list((folder / originals.FOLDER).iterdir()) == []


def test_replies_are_kept_for_a_day(collection, monkeypatch):
    reply = add_transaction.StoredReply("asked", 201, "{}")
    with collection._engine.begin() as connection:
        add_transaction.store_reply(connection, "key", reply)
        assert add_transaction.find_reply(connection, "key") == reply
        assert add_transaction.find_reply(connection, "other") is None
        monkeypatch.setattr(add_transaction, "LIFETIME_SECONDS", -1)
        assert add_transaction.find_reply(connection, "key") is None


def test_the_newest_replies_are_kept(collection, monkeypatch):
    monkeypatch.setattr(add_transaction, "MOST_REPLIES", 10)
    reply = add_transaction.StoredReply("asked", 201, "{}")
    now = time.time()
    for number in range(12):
        with monkeypatch.context() as later, collection._engine.begin() as connection:
            later.setattr(time, "time", lambda at=now + number: at)
            add_transaction.store_reply(connection, f"key {number:02}", reply)
        with collection._engine.begin() as connection:
            kept = [n for n in range(12) if add_transaction.find_reply(connection, f"key {n:02}")]
        assert kept == list(range({10: 1, 11: 2}.get(number, 0), number + 1))


def test_erasing_deletes_the_replies_that_name_the_patients_images(collection, entries):
    with collection.writer() as writer:
        (erased,) = writer.add(entries(0, 1, patient="a" * 32)).ids
        (deleted,) = writer.add(entries(1, 2, patient="a" * 32)).ids
        (other,) = writer.add(entries(2, 3, patient="b" * 32)).ids
        (copy,) = writer.add(entries(2, 3, patient="b" * 32), duplicates=True).ids
        writer.delete([deleted])
        bodies = {"erased": f"{erased}-2", "deleted": deleted, "both": f"{other} {erased}", "other": copy}
        with collection._engine.begin() as connection:
            for key, body in bodies.items():
                add_transaction.store_reply(connection, key, add_transaction.StoredReply("asked", 201, body))
        writer.erase_patient(["a" * 32])
    assert [key for key in bodies if collection.find_reply(key)] == ["other"]


def test_images_of_a_patient_are_those_of_now_and_the_deleted_ones_but_no_other_patients(collection, entries):
    first, second = "a" * 32, "b" * 32
    with collection.writer() as writer:
        (kept, deleted) = writer.add(entries(0, 2, patient=first)).ids
        (others,) = writer.add(entries(2, 3, patient=second)).ids
        (copy,) = writer.add(entries(2, 3, patient=first), duplicates=True).ids
        writer.set_labels(others, {"view": "AP"})  # so that the history names it
        writer.delete([deleted, copy])
        assert copy.startswith(others)
        assert writer.images_of(first) == [kept, *sorted([deleted, copy])]
        assert writer.images_of(second) == [others]
        writer.erase_patient([first])
        assert writer.images_of(first) == []


def test_an_image_keeps_its_newest_entries(
    collection: Collection, entries: MakeEntries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_changes, "KEPT_OF_IMAGE", 5)
    monkeypatch.setattr(label_changes, "PRUNED_EVERY", 10)
    with collection.writer() as writer:
        first, second, third = writer.add(entries(0, 3)).ids
        writer.set_labels_of([first, second], {"view": "AP"})
        writer.compact()  # keeps a last good copy of the entries to be removed
        for number in range(27):
            writer.set_labels(first, {"view": str(number)})
    changes = told(collection)
    assert [change.change for change in changes] == [*range(29, 15, -1), 2, 1]
    both = changes[-2]
    assert (both.images, both.image_ids) == (2, (second,))
    assert sum(first in change.image_ids for change in changes[:-1]) == 5 + 9
    assert collection.index_feed().changed(1, 29, 0, 10).tolist() == [1, 2]
    assert verify_collection(collection) == []
    with collection.writer() as writer:
        writer.set_labels(third, {"view": "AP"})
        writer.compact()
    assert verify_collection(collection) == []
