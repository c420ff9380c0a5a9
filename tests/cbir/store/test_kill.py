"""`kill -9` at any moment loses nothing that was acknowledged and brings nothing back that was deleted."""

import os
import random
import signal
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.conftest import entry

KILLS = 16  # bench/kills.py kills a thousand times


def work(folder: Path, seed: int, acknowledge: int) -> None:
    """Add, delete, end runs and compact for ever; tell of each step before and after it."""
    choose = random.Random(seed)
    alive: list[str] = []
    number = seed * 1_000_000
    with Collection(folder) as collection, collection.writer() as writer:

        def tell(text: str) -> None:
            os.write(acknowledge, f"{text}\n".encode())

        while True:
            step = choose.choice(["add", "add", "add", "delete", "finish", "compact"])
            if step == "add":
                size = choose.randint(1, 40)
                batch = [entry(n) for n in range(number, number + size)]
                number += size
                tell("adding " + " ".join(record.content_hash for record, _ in batch))
                writer.add(batch)
                alive += [record.content_hash for record, _ in batch]
            elif step == "delete" and alive:
                gone = choose.sample(alive, min(len(alive), choose.randint(1, 20)))
                tell("deleting " + " ".join(gone))
                writer.delete(gone)
                alive = [image_id for image_id in alive if image_id not in set(gone)]
            elif step == "finish":
                writer.finish()
            elif step == "compact":
                writer.compact()
            tell("done")


def kill_once(folder: Path, seed: int, words: int, after: float) -> list[str]:
    """Let a process work and kill it `after` seconds after it has said so many words; what it said."""
    reading, writing = os.pipe()
    victim = get_context("fork").Process(target=work, args=(folder, seed, writing))
    victim.start()
    os.close(writing)
    said = b""
    while said.count(b"\n") < words and (more := os.read(reading, 1 << 20)):
        said += more
    time.sleep(after)
    assert victim.pid
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    with os.fdopen(reading, "rb") as pipe:
        said += pipe.read()
    return said.decode().split("\n")[:-1]


def settle(said: list[str], certain: set[str], gone: set[str]) -> tuple[set[str], set[str]]:
    """Book what was acknowledged; what the last, unacknowledged step may have added, and may have deleted."""
    pending: tuple[str, set[str]] = ("", set())
    for line in said:
        word, *ids = line.split(" ")
        if word != "done":
            pending = (word, set(ids))
            continue
        if pending[0] == "adding":
            certain |= pending[1]
        elif pending[0] == "deleting":
            certain -= pending[1]
            gone |= pending[1]
        pending = ("", set())
    return (
        pending[1] if pending[0] == "adding" else set(),
        pending[1] if pending[0] == "deleting" else set(),
    )


def test_kills_at_random_moments(tmp_path):
    folder = tmp_path / "collection"
    Collection.create(folder, profiles.get("tamura")).close()
    moments = random.Random(0)
    certain: set[str] = set()
    gone: set[str] = set()
    interrupted_steps = 0
    for seed in range(1, KILLS + 1):
        said = kill_once(folder, seed, moments.randint(1, 12), moments.uniform(0.0, 0.02))
        maybe_added, maybe_deleted = settle(said, certain, gone)
        interrupted_steps += bool(maybe_added or maybe_deleted)
        with Collection(folder) as collection:
            assert verify_collection(collection) == []
            ids = [record.image_id for _, record in collection.iterate()]
            found = set(ids)
            assert len(ids) == len(found), "an image is there twice"
            assert certain - maybe_deleted <= found, "an acknowledged image is lost"
            assert not found & gone, "a deleted image came back"
            assert found <= certain | maybe_added, "an image nobody added"
            view = collection.view()
            assert len(view) == len(found)
            check_vectors(collection, moments)
        certain, gone = found, gone | (maybe_deleted - found)
    assert len(certain) > 100
    assert interrupted_steps > 0, "the kills hit nothing; the test shows nothing"


def check_vectors(collection: Collection, choose: random.Random) -> None:
    """A few live rows of the view hold their own image's vector."""
    view = collection.view()
    rows = np.arange(len(view.gallery)) if view.rows is None else view.rows
    for row in choose.sample(rows.tolist(), min(5, len(rows))):
        (record,) = collection.records([view.gallery.ids[row]]).values()
        expected = view.statistics.normalise(collection.vector(record.image_id))
        np.testing.assert_array_equal(view.gallery.vectors(np.array([row]))[0], expected)
