"""Progress in a log: a line for the stage under way, every some seconds."""

import sys
import threading
import time
from typing import Any, Self

STARTING = "starting"  # stage until another is named
FIRST_SECONDS = 2.0  # before the first line: short commands print none
EVERY_SECONDS = 10.0


class StageLines:
    """Prints the latest stage on stderr, first after two seconds, then every ten; also while a stage stands still."""

    def __init__(self, first: float = FIRST_SECONDS, every: float = EVERY_SECONDS) -> None:
        self._seconds = first, every
        self._started = time.monotonic()
        self._latest = STARTING
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._print_lines, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._end.set()
        self._thread.join()

    def show(self, stage: str, done: int, total: int | None, note: str = "") -> None:
        """Set the state of a stage for the next line.

        Parameters
        ----------
        stage : str
            Name of the stage.
        done : int
            Steps completed.
        total : int, optional
            Steps of the stage; None if they are not known.
        note : str
            Text after the counts.
        """
        counts = f"{done} of {total}" if total is not None else str(done or "")
        if total == 1:  # one step: only that it is under way is known
            counts = ""
        details = ", ".join(filter(None, (counts, note)))
        self._latest = f"{stage}: {details}" if details else stage

    def _print_lines(self) -> None:
        first, every = self._seconds
        wait = first
        while not self._end.wait(wait):
            seconds = time.monotonic() - self._started
            print(f"{self._latest} ({seconds:.0f} s)", file=sys.stderr, flush=True)
            wait = every
