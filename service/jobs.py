"""Indexing in a process of its own, one job after the other. Jobs are kept in memory; indexing again goes on."""

import csv
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread, Timer
from typing import Any

from cbir.errors import NotFound
from cbir.client.messages import JobInfo, RefusedFile
from service.http.problems import Conflict, TooManyRequests

MOST_WAITING = 100
MOST_ENDED = 200
REFUSED_TOLD = 100
PATIENCE_SECONDS = 30  # for a cancelled job to end in order
ENDED = ("done", "cancelled", "failed")
DONE, SOME_REFUSED = 0, 3  # exit codes of `cbir index`

Held = Callable[[], AbstractContextManager[None]]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass
class Job:
    """An indexing run. hold: keeps others from writing to its collection meanwhile."""

    folder: Path
    collection: str
    arguments: Sequence[str]
    hold: Held
    job: str = field(default_factory=lambda: secrets.token_hex(8))
    state: str = "waiting"
    created: str = field(default_factory=_now)
    ended: str | None = None
    done: int = 0
    total: int | None = None
    refused: int = 0
    refused_files: list[RefusedFile] = field(default_factory=list)
    summary: dict[str, Any] | None = None
    error: str | None = None
    cancelled: bool = False
    process: "subprocess.Popen[str] | None" = None

    def info(self) -> JobInfo:
        """As the client sees it."""
        return JobInfo(
            kind="index", **{name: getattr(self, name) for name in JobInfo.model_fields if name != "kind"}
        )

    def end(self, state: str, error: str | None = None) -> None:
        """Enter a last state."""
        self.error, self.ended, self.state = error, _now(), state


class Jobs:
    """Jobs of one service, run one after the other. Thread-safe."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = Lock()
        self._queue: SimpleQueue[Job] = SimpleQueue()
        self._thread: Thread | None = None

    def add(self, job: Job) -> None:
        """Line a job up; raises TooManyRequests where a hundred wait."""
        with self._lock:
            if sum(one.state == "waiting" for one in self._jobs.values()) >= MOST_WAITING:
                raise TooManyRequests(f"{MOST_WAITING} jobs are waiting; try again when some have ended")
            ended = [name for name, one in self._jobs.items() if one.state in ENDED]
            for name in ended[: max(0, len(ended) - MOST_ENDED)]:
                del self._jobs[name]
            self._jobs[job.job] = job
            if self._thread is None:
                self._thread = Thread(target=self._work, name="jobs", daemon=True)
                self._thread.start()
        self._queue.put(job)

    def all(self) -> list[Job]:
        """The newest first."""
        with self._lock:
            return list(reversed(self._jobs.values()))

    def get(self, name: str) -> Job:
        """The job of that name; raises NotFound."""
        with self._lock:
            if name not in self._jobs:
                raise NotFound(f"there is no job {name}")
            return self._jobs[name]

    def cancel(self, name: str) -> Job:
        """End a job, in order where it runs: what it has indexed stays. Raises NotFound, Conflict if it has ended."""
        job = self.get(name)
        with self._lock:
            if job.state in ENDED:
                raise Conflict(f"the job {name} has ended: {job.state}")
            job.cancelled = True
            if job.state == "waiting":
                job.end("cancelled")
            elif job.process:
                interrupt(job.process)
        return job

    def counts(self) -> dict[str, int]:
        """How many jobs there are by state."""
        found = Counter(job.state for job in self.all())
        return {state: found[state] for state in ("waiting", "running", *ENDED)}

    def _work(self) -> None:
        while True:
            job = self._queue.get()
            try:
                with job.hold():
                    self._run(job)
            except Exception as error:  # the next job shall run all the same
                job.end("failed", f"the job could not be run: {type(error).__name__}")

    def _run(self, job: Job) -> None:
        with tempfile.TemporaryDirectory(prefix="cbir-job-") as place:
            report = Path(place) / "refused.csv"
            with self._lock:
                if job.cancelled:
                    return
                job.state = "running"
                job.process = start(job, report)
            said = follow(job)
            assert job.process.stdout is not None
            printed = job.process.stdout.read()
            code = job.process.wait()
            job.refused_files = refused_files(report, job.folder)
        with self._lock:
            job.summary = json.loads(printed) if printed.startswith("{") else None
            if job.cancelled:
                job.end("cancelled")
            elif code in (DONE, SOME_REFUSED):
                job.end("done")
            else:
                job.end("failed", said.removeprefix("cbir: ") or f"the indexing process ended with {code}")


def start(job: Job, report: Path) -> "subprocess.Popen[str]":
    """Start `cbir index` for a job."""
    command = [sys.executable, "-m", "cbir.main", "index", str(job.folder), *job.arguments]
    command += ["--format", "json", "--progress", "json", "--report", str(report)]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def follow(job: Job) -> str:
    """Take a job's progress from its process until that ends; the last line that was none."""
    assert job.process is not None
    assert job.process.stderr is not None
    said = ""
    for line in job.process.stderr:
        try:
            step = json.loads(line)
            job.done, job.total, job.refused = step["done"], step["total"], step["refused"]
        except (ValueError, TypeError, KeyError):
            said = line.strip() or said
    return said


def interrupt(process: "subprocess.Popen[str]") -> None:
    """Press Ctrl-C, and end the process outright where it has not ended after a while."""
    process.send_signal(signal.SIGINT)
    patience = Timer(PATIENCE_SECONDS, process.kill)
    patience.daemon = True
    patience.start()


def refused_files(report: Path, folder: Path) -> list[RefusedFile]:
    """The first rows of an indexing report, with paths relative to the folder."""
    if not report.exists():
        return []
    with report.open(newline="", encoding="utf-8") as file:
        rows = [row for row, _ in zip(csv.DictReader(file), range(REFUSED_TOLD), strict=False)]
    return [
        RefusedFile(path=os.path.relpath(row["path"], folder), reason=row["reason"].replace(str(folder), "."))
        for row in rows
    ]
