"""When `auto` is chosen again, and the process that does it."""

import logging
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cbir.evaluation import auto_choice
from cbir.evaluation.auto_choice import (
    LEAST_LABELLED,
    ChoiceUpdater,
    choice_is_due,
    choose,
    update_choice,
    update_when_due,
)
from cbir.rerank import AutoChoice, read_choice
from cbir.store import Collection
from cbir.store.base import profile as profiles
from tests.cbir.evaluation.test_auto_choice import filled
from tests.cbir.store.conftest import entry

COUNT = 20


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    """Return a collection whose choice was made."""
    with filled(tmp_path / "collection", COUNT) as made:
        with made.writer() as writer:
            update_choice(made, writer)
        yield made


def add(collection: Collection, first: int, last: int) -> None:
    with collection.writer() as writer:
        writer.add([entry(number, labels={"label": "ab"[number % 2]}) for number in range(first, last)])


def stored(collection: Collection) -> AutoChoice:
    return read_choice(collection.auto_choice(), collection.profile.descriptor)


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_due_at_twice_the_images(collection: Collection) -> None:
    assert stored(collection).images == COUNT
    assert not choice_is_due(collection)
    add(collection, COUNT, 2 * COUNT - 1)
    assert not choice_is_due(collection)
    add(collection, 2 * COUNT - 1, 2 * COUNT)
    assert choice_is_due(collection)


def test_due_after_another_version_chose(collection: Collection) -> None:
    with collection.writer() as writer:
        writer.set_auto(replace(stored(collection), images=None).to_json())
    assert choice_is_due(collection)
    with collection.writer() as writer:
        assert update_choice(collection, writer).images == COUNT
    assert not choice_is_due(collection)


def test_not_due_before_the_first_snapshot(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "c", profiles.get("tamura")) as empty:
        assert not choice_is_due(empty)
        add(empty, 0, 5)
        assert not choice_is_due(empty)


def test_update_keeps_the_label(tmp_path: Path) -> None:
    with filled(tmp_path / "c", LEAST_LABELLED // 2, key="organ") as made:
        with made.writer() as writer:
            writer.set_auto(choose(made, "organ").to_json())
            writer.add(
                [entry(n, labels={"organ": "ab"[n % 2]}) for n in range(LEAST_LABELLED // 2, LEAST_LABELLED)]
            )
        update_when_due(made.folder)
        choice = stored(made)
    assert (choice.images, choice.label) == (LEAST_LABELLED, "organ")
    assert f"on {LEAST_LABELLED} images by organ" in choice.reason


def test_update_waits_for_another_writer(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    add(collection, COUNT, 2 * COUNT)
    busy = collection.writer("another")
    monkeypatch.setattr(auto_choice.time, "sleep", lambda _: busy.__exit__(None, None, None))
    busy.__enter__()
    update_when_due(collection.folder)
    assert stored(collection).images == 2 * COUNT


def test_update_ends_though_the_collection_doubles_meanwhile(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(collection, COUNT, 2 * COUNT)

    def choose_slowly(opened: Collection, label: str | None) -> AutoChoice:
        choice = choose(opened, label)
        add(opened, 2 * COUNT, 4 * COUNT)
        return choice

    monkeypatch.setattr(auto_choice, "choose", choose_slowly)
    update_when_due(collection.folder)
    assert stored(collection).images == 2 * COUNT
    assert choice_is_due(collection)


def test_update_keeps_a_choice_made_meanwhile(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(collection, COUNT, 2 * COUNT)

    def choose_late(opened: Collection, label: str | None) -> AutoChoice:
        choice = choose(opened, label)
        with opened.writer() as writer:
            writer.set_auto(replace(choice, reason="made meanwhile").to_json())
        return choice

    monkeypatch.setattr(auto_choice, "choose", choose_late)
    update_when_due(collection.folder)
    assert stored(collection).reason == "made meanwhile"


@pytest.mark.slow
def test_the_process_chooses_once(collection: Collection) -> None:
    updater = ChoiceUpdater()
    updater.wake(collection)
    assert not updater._running
    add(collection, COUNT, 2 * COUNT)
    updater.wake(collection)
    updater.wake(collection)  # while the first runs
    wait_until(lambda: stored(collection).images == 2 * COUNT)
    changes = collection.generation()
    wait_until(lambda: not updater._running)
    updater.wake(collection)
    assert (updater._running, collection.generation()) == (False, changes)


@pytest.mark.slow
def test_a_failure_is_logged_and_not_repeated_at_once(
    collection: Collection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    add(collection, COUNT, 2 * COUNT)
    updater = ChoiceUpdater()
    monkeypatch.setattr(auto_choice.sys, "executable", "/bin/false")
    with caplog.at_level(logging.WARNING):
        updater.wake(collection)
        wait_until(lambda: not updater._running)
        updater.wake(collection)
    assert not updater._running
    assert caplog.text.count("auto was not chosen again: exit code 1") == 1


@pytest.mark.slow
def test_the_process_ends_when_another_than_the_service_is_its_parent(collection: Collection) -> None:
    add(collection, COUNT, 2 * COUNT)
    with collection.writer("another"):  # which it would wait for
        command = [sys.executable, "-m", "cbir.evaluation.auto_choice", str(collection.folder), "0"]
        assert subprocess.run(command, timeout=400).returncode == auto_choice.ORPHANED


@pytest.mark.slow
def test_values_in_other_errors_are_not_logged(
    collection: Collection, caplog: pytest.LogCaptureFixture
) -> None:
    add(collection, COUNT, 2 * COUNT)
    with closing(sqlite3.connect(collection.folder / "collection.sqlite")) as connection, connection:
        connection.execute("UPDATE labels SET value = CAST(? AS TEXT) WHERE number = 1", [b"Jane Doe\xff"])
    updater = ChoiceUpdater()
    with caplog.at_level(logging.WARNING):
        updater.wake(collection)
        wait_until(lambda: not updater._running)
    assert "auto was not chosen again: OperationalError at " in caplog.text
    assert "Jane" not in caplog.text
