"""Clients of the load test: send images over kept connections, one after the other, and report times and own CPU.

A process of its own beside the service. A client that gets 429 waits as long as `Retry-After` says, and sends its
next image then. Prints one JSON line.

    python bench/load_clients.py ADDRESS PATH --images FOLDER [--clients 32] [--seconds 10]
"""

import argparse
import asyncio
import itertools
import json
import resource
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np


class Reply(NamedTuple):
    """Reply to one request. retry_after: seconds, 0 if the service did not say."""

    status: int
    retry_after: float
    kept: bool


class Tally:
    """Counts and times of all clients."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.dropped = 0
        self.answered_ms: list[float] = []
        self.refused_ms: list[float] = []

    def count(self, status: int, seconds: float) -> None:
        """Count a reply that took `seconds`."""
        self.statuses[status] += 1
        if status == 200:
            self.answered_ms.append(1000 * seconds)
        elif status == 429:
            self.refused_ms.append(1000 * seconds)

    def facts(self) -> dict[str, float]:
        """Return counts, percentiles of the times until an answer, and the slowest of both kinds."""
        answered = np.array(self.answered_ms or [0.0])
        return {
            "answered": self.statuses[200],
            "refused": self.statuses[429],
            "failed": self.statuses.total() - self.statuses[200] - self.statuses[429] + self.dropped,
            **{f"p{share}_ms": float(np.percentile(answered, share)) for share in (50, 90, 99)},
            "max_ms": float(answered.max()),
            "refused_p99_ms": float(np.percentile(self.refused_ms or [0.0], 99)),
        }


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    """Read a reply with a Content-Length to its end."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
    headers = dict(line.split(": ", 1) for line in head[1:] if ": " in line)
    await reader.readexactly(int(headers.get("content-length", 0)))
    kept = headers.get("connection") != "close"
    return Reply(int(head[0].split()[1]), float(headers.get("retry-after", 0)), kept)


async def run_client(address: str, requests: Iterator[bytes], end: float, tally: Tally) -> None:
    """Send requests over one connection until `end`.

    Parameters
    ----------
    address : str
        Address of the service.
    requests : iterator of bytes
        Whole requests, shared with the other clients.
    end : float
        Time on the monotonic clock.
    tally : Tally
        Counts the replies.
    """
    parts = urlsplit(address)
    writer = None
    while (started := time.monotonic()) < end:
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            writer.write(next(requests))
            await writer.drain()
            reply = await read_reply(reader)
        except (OSError, asyncio.IncompleteReadError):
            tally.dropped += 1
            writer = None
            continue
        tally.count(reply.status, time.monotonic() - started)
        if not reply.kept:
            writer.close()
            writer = None
        if reply.status == 429:
            await asyncio.sleep(reply.retry_after)
    if writer is not None:
        writer.close()


async def run(address: str, requests: list[bytes], clients: int, seconds: float) -> Tally:
    """Run `clients` against the service at `address` for some `seconds`; each request has another image."""
    tally, shared, end = Tally(), itertools.cycle(requests), time.monotonic() + seconds
    await asyncio.gather(*(run_client(address, shared, end, tally) for _ in range(clients)))
    return tally


def main() -> None:
    """Run the clients and print what they measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("path", help="path and query string of the search")
    parser.add_argument("--images", type=Path, required=True, help="folder of image files to send")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    head = (
        f"POST {options.path} HTTP/1.1\r\nHost: {urlsplit(options.address).netloc}\r\n"
        "Content-Type: application/octet-stream\r\nContent-Length: "
    )
    requests = [
        f"{head}{len(data)}\r\n\r\n".encode() + data
        for data in (path.read_bytes() for path in sorted(options.images.iterdir()))
    ]
    before, started = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    tally = asyncio.run(run(options.address, requests, options.clients, options.seconds))
    seconds, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"seconds": seconds, "cpu_seconds": used, **tally.facts()}))


if __name__ == "__main__":
    main()
