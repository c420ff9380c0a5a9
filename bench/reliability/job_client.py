"""Jobs that index small folders, requested at services and run by workers, some of which are killed."""

import random
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from reliability.ledger import Ledger, Step
from reliability.pictures import image_id, png

PICTURES = 5  # of a job
END_SECONDS = 240.0  # within which a job has ended, the lease of a lost worker included


@dataclass
class FolderJob:
    """A folder to index. name: of the job, once it was accepted."""

    folder: Path
    step: Step
    name: str | None = None


class Jobs:
    """Requests one job a round, and waits for its end; a request that was not answered is repeated."""

    def __init__(self, root: Path, ledger: Ledger, numbers: Iterator[int]) -> None:
        self.root, self.ledger, self.numbers = root, ledger, numbers
        self.root.mkdir(exist_ok=True)
        self.attempts = 0  # of the last job: workers that have begun it

    def request(self, addresses: list[str]) -> FolderJob:
        """Draw a folder of pictures, and ask the first service that answers to index it."""
        first = next(self.numbers)
        folder = self.root / str(first)
        folder.mkdir()
        files = [png(number) for number in (first, *(next(self.numbers) for _ in range(PICTURES - 1)))]
        for number, data in enumerate(files):
            (folder / f"{number}.png").write_bytes(data)
        job = FolderJob(folder, Step("job", tuple(map(image_id, files))))
        self.ledger.begin(job.step)
        self._send(job, addresses)
        return job

    def finish(self, job: FolderJob, addresses: list[str]) -> list[str]:
        """Wait until a job has ended, which all services show; return what is wrong."""
        until = time.monotonic() + END_SECONDS
        facts: dict[str, object] = {}
        while time.monotonic() < until:
            if job.name is None:
                self._send(job, addresses)
            with suppress(httpx.TransportError):
                answer = httpx.get(f"{random.choice(addresses)}/v1/jobs/{job.name}", timeout=30)
                facts = answer.json() if answer.status_code == 200 else {"status": answer.status_code}
            if facts.get("state") == "done":
                self.ledger.acknowledge(job.step)
                self.attempts = int(str(facts["attempts"]))
                return []
            if facts.get("state") in ("failed", "cancelled") or facts.get("status") == 404:
                break
            time.sleep(0.2)
        return [f"a job has not ended: {facts}"]

    def _send(self, job: FolderJob, addresses: list[str]) -> None:
        for address in addresses:
            with suppress(httpx.TransportError):
                answer = httpx.post(
                    f"{address}/v1/jobs", json={"folder": str(job.folder), "processes": 1}, timeout=60
                )
                if answer.status_code == 202:
                    job.name = answer.json()["job"]
                    return
