"""The quarantine: kept out of searches, released or refused, erased with the patient, checked."""

import os
import signal
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from cbir.errors import InvalidInput, NotFound
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.base.statements import row_checksum
from cbir.store.erasure import find_traces
from cbir.store.records import originals, quarantine
from cbir.store.records.add_transaction import Added, AddTransaction
from cbir.store.records.records import Entry, Record
from cbir.store.upkeep.quarantine_release import (
    count_of_patients,
    read_quarantined,
    read_quarantined_picture,
    refuse_images,
    release_images,
)
from cbir.store.upkeep.verify import verify_content

PATIENT = "a" * 32


def entry(number: int, source: str = "", **labels: str) -> Entry:
    record = Record(
        f"{number:032x}",
        source or f"/images/{number}.png",
        "stamp",
        "png",
        9,
        9,
        labels=labels,
        patient_key=PATIENT,
    )
    return record, np.random.default_rng(number).random(80, np.float32)


@pytest.fixture
def collection(new_folder: Callable[[str], Path]) -> Collection:
    collection = Collection.create(new_folder("collection"), profiles.get("edge_histogram"))
    with collection.writer() as writer:
        writer.held_pictures = {entry(1)[0].content_hash: b"jpeg"}
        added = writer.add([entry(0), entry(1, intake="text"), entry(2)])
    assert [outcome for outcome, _ in added.outcomes] == ["added", "quarantined", "added"]
    assert added.quarantined == 1
    return collection


def test_a_quarantined_image_is_no_image_of_the_collection(collection: Collection) -> None:
    (image,) = read_quarantined(collection)
    assert image.record.labels == {"intake": "text"}
    assert len(collection) == 2
    assert read_quarantined_picture(collection, image.image_id) == b"jpeg"
    with pytest.raises(NotFound):
        collection.record(image.image_id)
    assert verify_content(collection) == []


def test_a_released_image_is_one_with_its_vector_and_thumbnail(collection: Collection) -> None:
    record, vector = entry(1)
    with collection.writer() as writer:
        release_images(writer, [record.content_hash])
    assert read_quarantined(collection) == []
    assert collection.record(record.content_hash).labels == {}
    numbers = collection.numbers_of([record.content_hash])
    assert np.allclose(collection.raw_vectors(numbers)[0], vector)
    assert collection.thumbnail(record.content_hash) == b"jpeg"
    assert verify_content(collection) == []


def test_a_refused_image_does_not_come_back(collection: Collection) -> None:
    with collection.writer() as writer:
        refuse_images(writer, [entry(1)[0].content_hash])
        writer.held_pictures = {}
        added = writer.add([entry(1, intake="text")])
    assert added.outcomes == (("deleted earlier", None),)
    assert read_quarantined(collection) == []


def test_the_same_image_is_quarantined_once_and_one_of_the_collection_never(collection: Collection) -> None:
    with collection.writer() as writer:
        writer.held_pictures = {}
        added = writer.add([entry(1, intake="text"), entry(0, intake="text")])
    assert [outcome for outcome, _ in added.outcomes] == ["quarantined", "updated"] or [
        outcome for outcome, _ in added.outcomes
    ] == ["quarantined", "duplicate"]
    assert len(read_quarantined(collection)) == 1


def test_a_quarantined_image_stays_until_it_is_released_whatever_comes_again(collection: Collection) -> None:
    again = entry(1, "/images/other.png")
    with collection.writer() as writer:
        for pictures in (None, {}):  # accepted, and without a finding now
            writer.held_pictures = pictures
            added = writer.add([again], restore=True)
            assert added.outcomes == (("quarantined", again[0].content_hash),)
        records = writer.quarantined_records([entry(1)[0].source, "/images/0.png"])
    assert {source: [record.labels for record in held] for source, held in records.items()} == {
        entry(1)[0].source: [{"intake": "text"}]
    }
    assert len(read_quarantined(collection)) == 1
    assert len(collection) == 2


def test_an_unknown_id_changes_nothing(collection: Collection) -> None:
    known = entry(1)[0].content_hash
    with collection.writer() as writer:
        for act in (release_images, refuse_images):
            with pytest.raises(NotFound, match="in quarantine"):
                act(writer, [known, "f" * 32])
    assert len(read_quarantined(collection)) == 1


def test_erasing_the_patient_empties_it(collection: Collection) -> None:
    with collection.writer() as writer:
        writer.erase_patient([PATIENT])
        assert read_quarantined(collection) == []
        assert writer.add([entry(1)]).outcomes == (("deleted earlier", None),)


def test_erasing_a_patient_deletes_the_originals_of_the_quarantine(new_folder: Callable[[str], Path]) -> None:
    collection = Collection.create(new_folder("c"), profiles.get("edge_histogram"))
    source = originals.store_original(collection.folder, b"file")
    path = originals.original_path(collection.folder, source)
    assert path is not None
    with collection.writer() as writer:
        writer.held_pictures = {}
        writer.add(
            [entry(1, source, intake="blank")],
            in_transaction=lambda transaction, _: transaction.note_originals([source]),
        )
        assert find_traces(collection, ["no one"]) == []
        assert count_of_patients(collection, [PATIENT, "b" * 32]) == 1
        assert writer.erase_patient([PATIENT]) == 1
        assert not path.exists()
        assert count_of_patients(collection, [PATIENT]) == 0


def test_two_frames_of_an_instance_with_the_same_picture_are_quarantined_as_one(
    collection: Collection,
) -> None:
    frames = [
        (replace(record, instance="1.2.3", sop_class="1.2"), vector)
        for record, vector in (entry(5, intake="blank"), entry(5, intake="blank"), entry(6))
    ]
    with collection.writer() as writer:
        writer.held_pictures = {}
        added = writer.add(frames)
    image_id = entry(5)[0].content_hash
    assert added.outcomes[:2] == (("quarantined", image_id), ("quarantined", image_id))
    assert added.outcomes[2][0] == "added"
    assert len(read_quarantined(collection)) == 2


def test_a_copy_of_a_picture_of_the_collection_is_quarantined_by_its_content(collection: Collection) -> None:
    with collection.writer() as writer:
        writer.held_pictures = {}
        added = writer.add([entry(0, "/images/other.png", intake="text")], duplicates=True)
        assert added.outcomes == (("quarantined", entry(0)[0].content_hash),)
        assert release_images(writer, [entry(0)[0].content_hash]).ids == ()
    assert len(read_quarantined(collection)) == 1
    assert len(collection) == 2


def die_in_the_transaction(folder: Path) -> None:
    """Store an original, quarantine its image, and be killed before the commit."""

    def die(transaction: AddTransaction, _: Added) -> None:
        transaction.note_originals([originals.store_original(folder, b"file")])
        os.kill(os.getpid(), signal.SIGKILL)

    with Collection(folder) as collection, collection.writer() as writer:
        writer.held_pictures = {}
        writer.add([entry(7, intake="text"), entry(8)], in_transaction=die)


def test_a_kill_between_file_and_row_leaves_neither(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "c", profiles.get("edge_histogram")):
        pass
    victim = get_context("fork").Process(target=die_in_the_transaction, args=(tmp_path / "c",))
    victim.start()
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    with Collection(tmp_path / "c") as collection:
        assert read_quarantined(collection) == []
        assert len(collection) == 0
        source = originals.store_original(collection.folder, b"file")  # the sender sends it again
        with collection.writer() as writer:
            writer.held_pictures = {}
            added = writer.add([entry(7, source, intake="text"), entry(8)])
            originals.sweep_unused(writer._engine, collection.folder)
        assert added.quarantined == len(added.ids) == 1
        assert verify_content(collection) == []
        path = originals.original_path(collection.folder, source)
        assert path is not None
        assert path.read_bytes() == b"file"


def test_the_original_of_a_quarantined_image_is_kept_and_goes_with_it(
    new_folder: Callable[[str], Path],
) -> None:
    collection = Collection.create(new_folder("c"), profiles.get("edge_histogram"))
    source = originals.store_original(collection.folder, b"file")
    path = originals.original_path(collection.folder, source)
    assert path is not None
    with collection.writer() as writer:
        writer.held_pictures = {}
        writer.add(
            [entry(1, source, intake="blank")],
            in_transaction=lambda transaction, _: transaction.note_originals([source]),
        )
        originals.erase_unused(writer._engine, collection.folder, [source])
        with writer._engine.connect() as connection:
            assert originals.unneeded_originals(connection, collection.folder) == set()
        assert path.exists()
        refuse_images(writer, [entry(1)[0].content_hash])
    assert not path.exists()


def test_a_full_quarantine_refuses_and_keeps_what_it_has(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "MOST_IMAGES", 2)
    with collection.writer() as writer:
        writer.held_pictures = {}
        with pytest.raises(InvalidInput, match="full"):
            writer.add([entry(3, intake="text"), entry(4, intake="text"), entry(5)])
    assert len(read_quarantined(collection)) == 1
    assert len(collection) == 2


def test_damage_is_found_in_the_quarantine(collection: Collection) -> None:
    with sqlite3.connect(collection.folder / "collection.sqlite") as connection:
        connection.create_function("row_checksum", -1, row_checksum)
        connection.execute("UPDATE quarantine SET picture = x'00'")
    connection.close()
    assert any("quarantined" in problem for problem in verify_content(collection))
