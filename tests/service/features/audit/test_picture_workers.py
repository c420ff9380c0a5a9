"""The order of results, how many tasks wait, cancellation, and what processes write."""

import logging
import os

import pytest

from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.system import threads
from cbir.system.threads import time_limit
from service.features.audit import duplicate_pictures
from service.features.audit.duplicate_pictures import AHEAD, PictureReader


@pytest.fixture
def reader(tmp_path):
    with Collection.create(tmp_path / "collection", profiles.get("tamura")) as created:
        yield PictureReader(created, 10**6)


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch):
    monkeypatch.setattr(duplicate_pictures, "cores", lambda: 2)


def double(reader, task):
    return 2 * task


def test_results_come_in_order_while_few_tasks_wait(reader):
    taken = []
    tasks = (taken.append(task) or task for task in range(100))
    with duplicate_pictures.picture_workers(reader, 1) as workers:
        for count, result in enumerate(workers.map(double, tasks), 1):
            assert result == 2 * (count - 1)
            assert len(taken) <= count + 2 * AHEAD
    assert count == len(taken) == 100


def test_a_checkpoint_precedes_each_result(reader, monkeypatch):
    monkeypatch.setattr(threads, "CHECK_SECONDS", 0)
    results = []

    def cancel():
        if len(results) == 3:
            raise KeyboardInterrupt

    with duplicate_pictures.picture_workers(reader, 1) as workers, time_limit(60, cancel):
        found = workers.map(double, range(10))
        results += [next(found), next(found), next(found)]
        with pytest.raises(KeyboardInterrupt):
            next(found)
    assert results == [0, 2, 4]


def describe_output(reader, task):
    null = os.stat(os.devnull)
    return logging.getLogger("PIL").level, os.path.samestat(os.fstat(2), null)


@pytest.mark.slow
@pytest.mark.usefixtures("spawned_workers")
def test_processes_drop_what_decoders_write(reader, monkeypatch):
    monkeypatch.setattr(duplicate_pictures, "LEAST_FOR_PROCESSES", 0)
    with duplicate_pictures.picture_workers(reader, 1) as workers:
        ((level, silent),) = workers.map(describe_output, [0])
    assert level > logging.CRITICAL
    assert silent
