"""Originals of a folder that several machines share."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.postgresql.postgresql_address import files_folder
from cbir.store.records import originals
from tests.cbir.store.conftest import entry

pytestmark = pytest.mark.slow


@pytest.fixture
def collection(address: str) -> Iterator[Collection]:
    with Collection.create(files_folder(address), profiles.get("tamura")) as created:
        yield created


def upload(collection: Collection, number: int, data: bytes) -> str:
    """Add an image with its original, as services do; return its id."""

    def store(transaction: Any, _added: Any) -> None:
        transaction.note_originals([originals.store_original(collection.folder, data)])

    record, vector = entry(number, f"p{number}")
    with collection.writer() as writer:
        source = originals.source_of(data)
        added = writer.add([(replace(record, source=source), vector)], restore=True, in_transaction=store)
    return added.ids[0]


def stored(collection: Collection) -> set[str]:
    return {originals.UPLOAD + path.name for path in (collection.folder / originals.FOLDER).iterdir()}


def test_erasing_and_compacting_delete_what_no_image_needs(collection: Collection) -> None:
    for number in range(3):
        upload(collection, number, b"%d" % number)
    originals.store_original(collection.folder, b"left by a crash")
    with collection.writer() as writer:
        writer.erase_patient(["p1"])
        assert stored(collection) == {originals.source_of(data) for data in (b"0", b"2")}
        originals.store_original(collection.folder, b"left by a crash")
        writer.compact()
    assert stored(collection) == {originals.source_of(data) for data in (b"0", b"2")}


@pytest.mark.parametrize("change", ["delete", "compact"])
def test_a_file_that_another_machine_adds_meanwhile_is_kept(
    collection: Collection, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    image_id = upload(collection, 1, b"the same file")
    erase_unused: Callable[..., None] = originals.erase_unused

    def add_meanwhile(*arguments: Any) -> None:
        monkeypatch.undo()
        with Collection(collection.folder) as other:
            upload(other, 1, b"the same file")
        erase_unused(*arguments)

    with collection.writer() as writer:
        if change == "compact":
            writer.delete([image_id])
            originals.store_original(collection.folder, b"the same file")  # a crash has left it
        monkeypatch.setattr(originals, "erase_unused", add_meanwhile)
        if change == "delete":
            writer.delete([image_id])
        else:
            writer.compact()
    assert stored(collection) == {originals.source_of(b"the same file")}
    assert len(collection) == 1
