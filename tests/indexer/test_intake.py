"""The way of instances into a collection, whatever happens beside it."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from cbir import settings
from cbir.images import Limits
from cbir.store import Collection
from cbir.store.records.add_transaction import Added
from cbir.store.records.records import Entry
from cbir.store.writing.writer import Writer
from indexer import intake
from indexer.describe_instance import Fate, InstanceFilter
from indexer.index_request import open_collection
from tests.indexer.receiving import file_of, slices
from tests.rights import obeying_rights, without_rights


def test_a_fault_of_the_snapshot_does_not_stop_the_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = Event()

    def fails(_: Collection) -> None:
        looked.set()
        raise MemoryError

    monkeypatch.setattr(intake, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(Collection, "statistics", fails)
    first, second = map(file_of, slices(2, 32))
    fates = []
    with open_collection(tmp_path / "collection") as opened:
        made = intake.Intake(
            opened,
            instance_filter=InstanceFilter(),
            limits=Limits(),
            jobs=1,
            who="test",
            settings=settings.load(),
        )
        fates.append(made.add(first).fate)
        assert looked.wait(60)
        later = Thread(target=lambda: fates.append(made.add(second).fate), daemon=True)
        later.start()
        later.join(60)
        made.close()
    assert fates == [Fate.stored, Fate.stored]


def test_the_log_says_what_restores_a_damaged_collection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_collection(tmp_path / "collection") as opened:
        made = intake.Intake(
            opened,
            instance_filter=InstanceFilter(),
            limits=Limits(),
            jobs=1,
            who="test",
            settings=settings.load(),
        )
        (tmp_path / "collection" / "patient.key").write_text("0" * 64)
        assert made.add(file_of(*slices(1, 32))).fate is Fate.failed
        made.close()
    assert "patient.key of" in caplog.text
    assert "copy it from a backup" in caplog.text


def test_the_log_names_a_file_that_may_not_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "collection"

    def add() -> Fate:
        with open_collection(folder) as opened:
            made = intake.Intake(
                opened,
                instance_filter=InstanceFilter(),
                limits=Limits(),
                jobs=1,
                who="test",
                settings=settings.load(),
            )
            with without_rights(folder / "patient.key"):
                fate = made.add(file_of(*slices(1, 32))).fate
            made.close()
        return fate

    assert obeying_rights(add) is Fate.failed
    assert f"may not read {folder.resolve() / 'patient.key'}; `chmod" in caplog.text


def test_an_instance_that_cannot_be_written_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, held = Writer.add, Event()

    def fails(writer: Writer, entries: Sequence[Entry], **options: Any) -> Added:
        held.wait(60)  # until all are pending
        if any(record.instance.endswith(".2") for record, _ in entries):
            raise ValueError
        return add(writer, entries, **options)

    monkeypatch.setattr(Writer, "add", fails)
    with open_collection(tmp_path / "collection") as opened:
        made = intake.Intake(
            opened,
            instance_filter=InstanceFilter(),
            limits=Limits(),
            jobs=1,
            who="test",
            settings=settings.load(),
        )
        with ThreadPoolExecutor(5) as threads:
            outcomes = [threads.submit(made.add, file_of(ds)) for ds in slices(5, 32)]
            deadline = time.monotonic() + 60
            while made._queue.qsize() < 4 and time.monotonic() < deadline:
                time.sleep(0.05)
            held.set()
        made.close()
        fates = [outcome.result().fate for outcome in outcomes]
    assert fates == [Fate.stored, Fate.failed, Fate.stored, Fate.stored, Fate.stored]
