"""Drawn joints of known severity, an annotation server over them, and a reader who sees it."""

import csv
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import cv2
import numpy as np
import psutil
from numpy.typing import NDArray
from playwright import sync_api

from cbir.store import Collection
from tests.e2e.browsing import PATIENCE_SECONDS, until
from tests.service.conftest import CBIR, cbir

SIDE = 64
# What is on the screen: the pair and whether it may be judged.
SCREEN = """() => {
    const { first, second } = document.getElementById("panes").dataset;
    const ready = !document.getElementById("first").disabled;
    return [first, second, ready, document.getElementById("cover").dataset.kind !== "finished"];
}"""
DRAWN = "Boolean(document.getElementById('left')?.picture)"
UNSENT = 'Object.keys(localStorage).filter((key) => key.startsWith("judged:")).length'


def joint(severity: float, seed: int) -> NDArray[np.uint8]:
    """(64, 64) uint8: two bones; the greater the severity (0 to 1), the narrower their gap."""
    rng = np.random.default_rng(seed)
    pixels = np.full((SIDE, SIDE), 40, np.uint8)
    middle, gap = int(rng.integers(26, 38)), 2 + 16 * (1 - severity)
    left, right = int(rng.integers(8, 18)), int(rng.integers(46, 56))
    bone = int(rng.integers(150, 210))
    cv2.rectangle(pixels, (left, 0), (right, int(middle - gap / 2)), bone, -1)
    cv2.rectangle(pixels, (left, int(np.ceil(middle + gap / 2))), (right, SIDE), bone, -1)
    noisy = cv2.GaussianBlur(pixels, (3, 3), 0) + rng.normal(0, 12, pixels.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8)


def joints(folder: Path, count: int) -> Path:
    """The collection of that many joints; their label `truth` says how severe they are."""
    severities = np.random.default_rng(1).permutation(np.linspace(0, 1, count))
    (folder / "files").mkdir(parents=True)
    with (folder / "files" / "labels.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "truth"])
        for number, severity in enumerate(severities):
            cv2.imwrite(str(folder / "files" / f"{number}.png"), joint(severity, number))
            rows.writerow([f"{number}.png", severity])
    labels = folder / "files" / "labels.csv"
    cbir("index", folder / "files", "--labels", labels, "--collection", folder / "joints", "--jobs", "1")
    return folder / "joints"


def truths(collection: Path) -> dict[str, float]:
    """How severe each image of a collection of joints is."""
    with Collection(collection) as opened:
        return {record.image_id: float(record.labels["truth"]) for _, record in opened.iterate()}


class Annotating:
    """A running `cbir annotate serve`."""

    def __init__(self, *arguments: str | Path, **environment: str) -> None:
        command = [*CBIR, "annotate", "serve", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said.startswith("The page: http://"), self.stop()
        self.address = said.split()[-1]
        self.port = int(self.address.rsplit(":", 1)[1].removesuffix("/annotate"))

    def kill(self) -> None:
        """kill -9, of every process there is of it."""
        processes = [psutil.Process(self.process.pid)]
        for process in processes + processes[0].children(recursive=True):
            with suppress(ProcessLookupError):  # it may just have ended
                os.kill(process.pid, signal.SIGKILL)
        self.process.communicate(timeout=PATIENCE_SECONDS)

    def stop(self) -> str:
        """Press Ctrl-C; what it wrote to the log."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=2 * PATIENCE_SECONDS)[1]


@contextmanager
def annotating(*arguments: str | Path, **environment: str) -> Iterator[Annotating]:
    """An annotation server, on a free port unless `arguments` name one."""
    running = Annotating(*arguments, *([] if "--port" in arguments else ["--port", "0"]), **environment)
    try:
        yield running
    finally:
        if running.process.stdout and not running.process.stdout.closed:
            running.stop()


def introduce(page: sync_api.Page, address: str, name: str = "Dr. Ada") -> None:
    """Open the page, and say who is judging."""
    page.goto(address)
    page.get_by_label("Your name").fill(name)
    page.keyboard.press("Enter")
    until(page, DRAWN)


def on_screen(page: sync_api.Page, after: tuple[str, str] | None = None) -> tuple[str, str] | None:
    """The pair to be judged, another than the one judged before; None where the study is finished."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        first, second, ready, unfinished = page.evaluate(SCREEN)
        if not unfinished:
            return None
        if ready and (first, second) != after:
            return first, second
        page.wait_for_timeout(5)
    raise AssertionError(f"no pair came; the page says {page.locator('main').inner_text()}")
