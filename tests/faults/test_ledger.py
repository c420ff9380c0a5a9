"""The ledger of the campaigns notices what it must."""

from pathlib import Path

import pytest
from reliability.ledger import Ledger, Step

from cbir.store import Collection
from tests.cbir.store.conftest import collection, entry, new_folder

__all__ = ["collection", "new_folder"]  # fixtures of the store's tests, used here too


@pytest.fixture
def folder(collection: Collection) -> Path:
    """A collection with five images."""
    with collection.writer() as writer:
        writer.add([entry(number) for number in range(5)])
    collection.close()
    return collection.folder


def names(*numbers: int) -> tuple[str, ...]:
    """The ids of images."""
    return tuple(entry(number)[0].content_hash for number in numbers)


def acknowledged(*steps: Step) -> Ledger:
    """A ledger of these steps."""
    ledger = Ledger()
    for step in steps:
        with ledger.doing(step):
            pass
    return ledger


def test_a_collection_as_acknowledged(folder: Path) -> None:
    ledger = acknowledged(Step("add", names(0, 1, 2, 3, 4)))
    assert ledger.settle(folder) == []
    assert ledger.acknowledged["add"] == 5


def test_lost_images(folder: Path) -> None:
    problems = acknowledged(Step("add", names(0, 1, 2, 3, 4, 5))).settle(folder)
    assert problems == [f"1 images lost: {names(5)[0]}"]


def test_images_that_came_back(folder: Path) -> None:
    ledger = acknowledged(Step("add", names(0, 1, 2, 3, 4)), Step("delete", names(2)))
    assert ledger.settle(folder) == [f"1 images came back after deletion: {names(2)[0]}"]


def test_images_that_no_one_added(folder: Path) -> None:
    assert acknowledged(Step("add", names(0, 1, 2, 3))).settle(folder) == [
        f"1 images never added: {names(4)[0]}"
    ]


def test_images_stored_twice(folder: Path) -> None:
    with Collection(folder) as opened, opened.writer() as writer:
        writer.add([entry(3)], duplicates=True)
    ledger = acknowledged(Step("add", (*names(0, 1, 2, 3, 4), f"{names(3)[0]}-2")))
    assert ledger.settle(folder) == [f"1 images stored twice: {names(3)[0]}"]


def test_labels(folder: Path) -> None:
    ledger = acknowledged(Step("add", names(0, 1, 2, 3, 4)), Step("label", names(1), "knee"))
    assert ledger.settle(folder) == [f"1 images with another label: {names(1)[0]}"]


def test_interrupted_steps_may_have_happened_as_a_whole(folder: Path) -> None:
    ledger = acknowledged(Step("add", names(0, 1)))
    for step in (
        Step("add", names(2, 3)),
        Step("add", names(4)),
        Step("add", names(7, 8)),
        Step("delete", names(0)),
    ):
        ledger.begin(step)
    assert ledger.settle(folder) == []
    assert set(ledger.labels) == set(names(0, 1, 2, 3, 4))
    ledger.begin(Step("delete", names(3, 9)))
    assert ledger.settle(folder) == ["a step (delete) happened by half"]
