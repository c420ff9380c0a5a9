"""kill -9 while images are added over HTTP: what was answered 201 is there."""

import os
import random
import signal
import threading
import time
from pathlib import Path

import cv2
import httpx
import numpy as np
import psutil

from cbir.store import Collection
from cbir.store.upkeep.verify import verify_collection
from tests.service.conftest import indexed, pictures, serving, writable

__all__ = ["indexed", "pictures", "writable"]  # fixtures of the service's tests, used here too

KILLS = 2  # bench/kills.py kills a thousand times
SENDERS = 3
ENOUGH = 3  # images that are acknowledged before the service is killed


def noise(seed: int) -> bytes:
    """A PNG that no other seed gives."""
    pixels = np.random.default_rng(seed).integers(0, 256, (48, 48), np.uint8)
    return bytes(cv2.imencode(".png", cv2.GaussianBlur(pixels, (3, 3), 0))[1])


class Sender(threading.Thread):
    """Adds images until the service is gone; remembers what was acknowledged."""

    def __init__(self, address: str, first: int) -> None:
        super().__init__()
        self.address, self.next = address, first
        self.acknowledged: list[str] = []
        self.statuses: set[int] = set()

    def run(self) -> None:
        try:
            with httpx.Client(timeout=30) as client:
                while True:
                    files = [
                        ("image", ("x.png", noise(self.next + n), "image/png"))
                        for n in range(1 + self.next % 3)
                    ]
                    self.next += 3
                    answer = client.post(f"{self.address}/v1/images", files=files)
                    self.statuses.add(answer.status_code)
                    if answer.status_code == 201:
                        self.acknowledged += answer.json()["ids"]
        except httpx.TransportError:
            return


def test_what_was_acknowledged_is_there(writable: Path) -> None:
    moments, acknowledged = random.Random(0), set[str]()
    for turn in range(KILLS):
        with serving(writable) as running:
            senders = [Sender(running.address, 10**6 * turn + 10**5 * n) for n in range(SENDERS)]
            for sender in senders:
                sender.start()
            started = time.monotonic()
            while sum(len(sender.acknowledged) for sender in senders) < ENOUGH:
                assert time.monotonic() - started < 120, [sender.statuses for sender in senders]
                time.sleep(0.01)
            time.sleep(moments.uniform(0, 0.7))
            processes = [psutil.Process(running.process.pid)]
            processes += processes[0].children(recursive=True)
            for process in processes:
                os.kill(process.pid, signal.SIGKILL)
            for sender in senders:
                sender.join(120)
                assert not sender.is_alive()
                acknowledged.update(sender.acknowledged)
        with Collection(writable) as collection:
            assert verify_collection(collection) == []
            there = {record.image_id for _, record in collection.iterate()}
        assert acknowledged <= there, "images that were answered 201 are not there"
    assert len(acknowledged) >= KILLS * ENOUGH
