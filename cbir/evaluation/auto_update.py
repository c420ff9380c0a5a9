"""Choose again what `auto` stands for when a collection has doubled, in a process of its own.

`python -m cbir.evaluation.auto_update COLLECTION PARENT` is that process, which ends with its parent.
"""

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Lock, Thread

from cbir.errors import CbirError, CollectionBusy, describe_unexpected
from cbir.evaluation.auto_choice import choose
from cbir.rerank.auto import read_choice
from cbir.store import Collection

GROWTH = 2  # a new choice when the collection has so many times the images
NICENESS = 19
BUSY_SECONDS = 600.0  # to wait for another writer
FAILED, ORPHANED = 1, 2  # exit codes

log = logging.getLogger(__name__)


def choice_is_due(collection: Collection) -> bool:
    """Return whether a collection with a snapshot has twice the images of the last choice, or has none yet."""
    choice = read_choice(collection.auto_choice(), collection.profile.descriptor)
    return collection.statistics() is not None and len(collection) >= GROWTH * (choice.images or 0)


class ChoiceUpdater:
    """Starts the process when a choice is due, one at a time. Thread-safe. One for each open collection."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running = False
        self._tried: dict[Path, int] = {}  # by folder: images when the process was last started

    def wake(self, collection: Collection) -> None:
        """Start the process if a choice is due; after a failure, when the collection has doubled again."""
        folder = collection.folder
        with self._lock:
            tried = self._tried.get(folder, 0)
            if self._running or len(collection) < GROWTH * tried or not choice_is_due(collection):
                return
            self._running, self._tried[folder] = True, len(collection)
        Thread(target=self._run, args=[folder], name="choice of auto", daemon=True).start()

    def _run(self, folder: Path) -> None:
        command = [sys.executable, "-m", "cbir.evaluation.auto_update", str(folder), str(os.getpid())]
        try:
            process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if process.returncode != 0:
                reason = next(iter(reversed(process.stderr.splitlines())), f"exit code {process.returncode}")
                log.warning("auto was not chosen again: %s", reason)
        except OSError as error:
            log.warning("auto was not chosen again: %s", error.strerror)
        finally:
            self._running = False


def update_when_due(folder: Path) -> None:
    """Choose while others may write, and store the choice unless another process has chosen meanwhile."""
    with Collection(folder) as collection:
        label = read_choice(collection.auto_choice(), collection.profile.descriptor).label
        text = choose(collection, label).to_json()
        until = time.monotonic() + BUSY_SECONDS
        while choice_is_due(collection):
            try:
                with collection.writer("choice of auto") as writer:
                    writer.set_auto(text)
                return
            except CollectionBusy:
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)


def main() -> int:
    """Run at the lowest priority."""
    folder, parent = Path(sys.argv[1]), int(sys.argv[2])
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's affair
    Thread(target=_end_with, args=[parent], daemon=True).start()
    try:
        update_when_due(folder)
    except CbirError as error:
        print(error, file=sys.stderr)
        return FAILED
    except Exception as error:
        print(describe_unexpected(error), file=sys.stderr)
        return FAILED
    return 0


def _end_with(parent: int) -> None:
    """End this process with its parent; storing a choice is atomic."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(ORPHANED)


if __name__ == "__main__":
    sys.exit(main())
