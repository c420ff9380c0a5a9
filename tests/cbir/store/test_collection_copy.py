"""Copying a collection between folders and PostgreSQL: everything stays, and half a copy is none."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select, update

from cbir.errors import CollectionDamaged, InvalidInput
from cbir.store import Collection
from cbir.store.base import metadata, schema
from cbir.store.base import profile as profiles
from cbir.store.postgresql.postgresql_address import files_folder
from cbir.store.records.add_transaction import StoredReply
from cbir.store.records.originals import original_path, store_original
from cbir.store.upkeep.collection_copy import OWN_KEYS, TABLES, copy_collection
from cbir.store.upkeep.quarantine_release import read_quarantined, read_quarantined_picture, release_images
from cbir.store.upkeep.verify import verify_collection
from tests.postgresql_server import PostgresqlServer

pytestmark = pytest.mark.slow

IMAGES, PICTURE, FILE = 30, b"\xff\xd8 a thumbnail", b"an uploaded file"


def silent(stage: str, done: int, total: int) -> None:
    """Show nothing."""


@pytest.fixture(params=["folder", "postgresql"])
def target(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    postgresql: PostgresqlServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A place for a copy: a new folder, then a new schema."""
    if request.param == "folder":
        return tmp_path / "copy"
    monkeypatch.setenv("CBIR_COLLECTION_FILES", str(tmp_path / "copy-files"))
    return files_folder(postgresql.new_address())


@pytest.fixture
def full(collection: Collection, entries: Callable[..., list]) -> Collection:
    """A collection with something in every table, whose newest image is deleted."""
    with collection.writer("a curator") as writer:
        source = store_original(collection.folder, FILE)
        (record, vector), *others = entries(0, IMAGES, patient="p1", label="knee", note="ä ∫ '")

        def note(transaction, added):
            transaction.note_originals([source])

        def attach(transaction, added):
            transaction.store_thumbnails({1: PICTURE, 2: PICTURE})
            transaction.store_reply("a key", StoredReply("a request", 201, "{}"))

        writer.add([(replace(record, source=source), vector), *others], in_transaction=note)
        writer.add(entries(IMAGES, IMAGES + 6, patient="p2"))
        writer.finish()
        ids = writer.images_of("p1")
        writer.set_labels(ids[0], {"label": "hip"})
        writer.delete(ids[3:5])
        writer.erase_patient(["p2"])
        newest = writer.add(entries(300, 302, patient="p3"), in_transaction=attach).ids
        writer.delete(newest)
        with collection._engine.begin() as connection:
            metadata.set_value(connection, "index:hnsw", "{}")
    return collection


def test_the_quarantine_is_copied(collection: Collection, target: Path, entries: Callable[..., list]) -> None:
    source = store_original(collection.folder, FILE)
    ((record, vector),) = entries(0, 1, patient="p1", intake="text")
    with collection.writer("a modality") as writer:
        writer.held_pictures = {record.content_hash: PICTURE}
        writer.add(
            [(replace(record, source=source), vector)],
            in_transaction=lambda transaction, _: transaction.note_originals([source]),
        )
    assert copy_collection(collection, target, silent).quarantined == 1
    with Collection(target) as copy:
        assert read_quarantined(copy) == read_quarantined(collection)
        assert read_quarantined_picture(copy, record.content_hash) == PICTURE
        assert original_path(copy.folder, source).read_bytes() == FILE
        assert verify_collection(copy) == []
        with copy.writer() as writer:
            assert len(release_images(writer, [record.content_hash]).ids) == 1
        np.testing.assert_array_equal(copy.vector(record.content_hash), vector)


def rows_of(collection: Collection) -> dict[str, list[tuple]]:
    """All rows that a copy has, in order."""
    found = {}
    with collection._engine.connect() as connection:
        for table in TABLES:
            rows = sorted(tuple(row) for row in connection.execute(select(table)))
            own = (*OWN_KEYS, "index:hnsw", "generation") if table is schema.meta else ()
            found[table.name] = [row for row in rows if row[0] not in own]
    return found


def test_everything_is_copied(full: Collection, target: Path, entries: Callable[..., list]) -> None:
    stages = []
    copied = copy_collection(full, target, lambda stage, done, total: stages.append((stage, done, total)))
    assert (copied.images, copied.originals, copied.changed_meanwhile) == (IMAGES - 2, 1, False)
    assert ("copying vectors", IMAGES - 2, IMAGES - 2) in stages
    with Collection(target) as copy:
        assert verify_collection(copy) == []
        assert rows_of(copy) == rows_of(full)
        assert copy.secret == full.secret
        assert copy.profile == full.profile
        assert copy.find_reply("a key") == StoredReply("a request", 201, "{}")
        for ours, theirs in zip(copy.history(), full.history(), strict=True):
            assert replace(ours, image_ids=set(ours.image_ids)) == replace(
                theirs, image_ids=set(theirs.image_ids)
            )
        np.testing.assert_array_equal(copy.view().gallery.ids, full.view().gallery.ids)
        rows = np.arange(IMAGES - 2)
        vectors = [opened.view().gallery.vectors(rows) for opened in (copy, full)]
        np.testing.assert_array_equal(*vectors)
        with full.writer() as one, copy.writer() as other:
            numbers = [writer.add(entries(90, 92)).numbers for writer in (one, other)]
            again = [writer.add(entries(IMAGES, IMAGES + 6)) for writer in (one, other)]
        assert numbers[0] == numbers[1], "numbers of deleted images are not used again"
        assert min(numbers[0].values()) == IMAGES + 6 + 2 + 1
        assert [added.deleted_earlier for added in again] == [6, 6], "erased images stay out"
        assert copy.history(limit=1)[0].change == full.history(limit=1)[0].change


def test_an_empty_collection_is_copied(collection: Collection, target: Path) -> None:
    assert copy_collection(collection, target, silent).images == 0
    with Collection(target) as copy:
        assert verify_collection(copy) == []


def test_an_interrupted_copy_is_none(full: Collection, target: Path) -> None:
    def interrupt(stage: str, done: int, total: int) -> None:
        if stage == "comparing vectors":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_collection(full, target, interrupt)
    assert not Collection.exists(target)
    assert not target.with_name(f"{target.name}.partial").exists()
    copy_collection(full, target, silent)  # the same command again
    with Collection(target) as copy:
        assert rows_of(copy) == rows_of(full)


def test_a_copy_that_differs_is_not_kept(
    full: Collection, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cbir.store.upkeep import collection_copy

    original = collection_copy._require_equal

    def spoil(connection, table, read, progress):
        if table is schema.labels:
            connection.execute(update(schema.labels).where(schema.labels.c.number == 7).values(checksum=1))
        original(connection, table, read, progress)

    monkeypatch.setattr(collection_copy, "_require_equal", spoil)
    with pytest.raises(CollectionDamaged, match="copy of labels differs"):
        copy_collection(full, target, silent)
    assert not Collection.exists(target)


def test_only_an_empty_place_is_taken(full: Collection, target: Path, tmp_path: Path) -> None:
    copy_collection(full, target, silent)
    with pytest.raises(InvalidInput, match=r"is not empty|already holds a collection"):
        copy_collection(full, target, silent)
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path, tmp_path / "x.alias"):
        with pytest.raises(InvalidInput):
            copy_collection(full, place, silent)


def test_another_key_is_not_overwritten(
    collection: Collection, tmp_path: Path, postgresql, monkeypatch
) -> None:
    monkeypatch.setenv("CBIR_COLLECTION_FILES", str(tmp_path / "copy-files"))
    folder = files_folder(postgresql.new_address())
    (folder / schema.SECRET).write_text("00" * 32)
    with pytest.raises(InvalidInput, match="the key of another collection"):
        copy_collection(collection, folder, silent)
    assert (folder / schema.SECRET).read_text() == "00" * 32


def test_a_damaged_collection_is_not_copied(full: Collection, target: Path) -> None:
    original_path(full.folder, store_original(full.folder, FILE)).write_bytes(b"changed")
    with pytest.raises(CollectionDamaged, match="the collection is damaged"):
        copy_collection(full, target, silent)
    assert not Collection.exists(target)


def test_changes_meanwhile_are_reported(full: Collection, target: Path, entries: Callable[..., list]) -> None:
    def write(stage: str, done: int, total: int) -> None:
        if stage == "copying vectors":
            with full.writer() as writer:
                writer.add(entries(200, 201))

    assert copy_collection(full, target, write).changed_meanwhile
    with Collection(target) as copy:
        assert verify_collection(copy) == []
        assert len(copy) == len(full) - 1


def test_profile_of_the_copy_is_that_of_the_source(tmp_path: Path, target: Path) -> None:
    with Collection.create(tmp_path / "source", profiles.get("huang2012")) as source:
        copy_collection(source, target, silent)
    with Collection(target) as copy:
        assert copy.profile.name == "huang2012"
