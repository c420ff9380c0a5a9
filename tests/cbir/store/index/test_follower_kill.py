"""`kill -9` at any moment leaves an index that the next process can follow the collection with."""

import random
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.index import follower
from tests.cbir.store.index.followed import Followed, make_entries
from tests.cbir.store.index.test_indexed_vectors import SCOPES

pytestmark = pytest.mark.slow

KILLS = 4


def work(folder: Path, index: str, seed: int, writing: Connection) -> None:
    """Change the collection and follow for ever; tell of each step before it."""
    choose, number = random.Random(seed), seed * 1_000_000
    follower.SAVED_SECONDS = follower.FOLLOW_SECONDS = -1.0
    with Collection(folder) as collection, collection.writer() as writer:
        followed = Followed(collection, Settings(index=index))
        while True:
            writing.send(None)
            step = choose.choice(["add", "delete", "label", "compact", "rebuild", "follow", "follow"])
            ids = followed.ids()
            if step == "add":
                writer.add(make_entries(number, number + 30))
                number += 30
            elif step == "delete":
                writer.delete(choose.sample(ids, min(len(ids) // 2, 20)))  # an empty collection has no index
            elif step == "label":
                writer.label_images("part", dict.fromkeys(choose.sample(ids, min(len(ids), 20)), "hand"))
            elif step == "compact":
                writer.compact(refit=choose.random() < 0.5)
            else:
                followed.index.follower.follow(rebuild=step == "rebuild")


def kill_once(folder: Path, index: str, seed: int, steps: int, after: float) -> None:
    """Let a process work, and kill it `after` seconds after it has begun so many steps."""
    context = get_context("spawn")  # neither FAISS nor gRPC survives a fork
    reading, writing = context.Pipe(duplex=False)
    victim = context.Process(target=work, args=(folder, index, seed, writing))
    victim.start()
    writing.close()
    for _ in range(steps):
        reading.recv()  # raises EOFError if the process has ended by itself
    time.sleep(after)
    victim.kill()
    victim.join()
    reading.close()


def test_kills_at_random_moments(followed: Followed):
    followed.filled(100)
    moments = random.Random(0)
    folder, index = followed.collection.folder, followed.settings.index
    for seed in range(1, KILLS + 1):
        kill_once(folder, index, seed, moments.randint(1, 12), moments.uniform(0.0, 0.1))
        followed.index = followed.opened()
        followed.require_exact(SCOPES[:2], seed=seed)  # right before it has followed, too
        assert followed.index.follower.follow()
        followed.require_same()
        followed.require_exact(SCOPES, seed=seed)
        record = followed.index.current.editions.read()
        assert (record.filling, record.dropped) == (None, ())
