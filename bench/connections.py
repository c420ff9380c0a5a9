"""Hostile connections: how long honest requests wait beside clients that send nothing, or half a request.

Each case opens connections to its own `cbir serve`, and measures searches and health checks meanwhile, each on a
connection of its own. The memory is that of the service with all its processes (PSS).

    python bench/connections.py [--seconds 10] [--only NAME]
"""

import argparse
import http.client
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

HEAD = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n"
MEGABYTES_60 = 60 * 2**20
FILES = 4096
TARGETS = {"search_seconds": 5.0, "health_seconds": 2.0, "pss_mib": 2048}


class Case(NamedTuple):
    """Connections, and what is sent on each before it falls silent; reopened: again whenever it is closed."""

    name: str
    connections: int
    sent: bytes
    reopened: bool = False


CASES = (
    Case("nothing", 0, b""),
    Case("silent", 1100, b""),
    Case("silent, reopened when closed", 1100, b"", reopened=True),
    Case("half a head", 90, HEAD[:20]),
    Case("half a head", 1100, HEAD[:20]),
    Case("half a body", 90, HEAD + b"Content-Length: 999\r\n\r\nhalf"),
    Case("half a body", 1100, HEAD + b"Content-Length: 999\r\n\r\nhalf"),
    Case("half a chunk", 90, HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"),
    Case(
        "60 MB less a byte", 40, HEAD + b"Content-Length: %d\r\n\r\n" % MEGABYTES_60 + bytes(MEGABYTES_60 - 1)
    ),
    Case("answers not read", 200, b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20),
)


@contextmanager
def running_service(collection: Path) -> Iterator[tuple[int, psutil.Process]]:
    """Run the service over `collection`; yield its port and its first process."""
    command = [sys.executable, "-m", "cbir.api.main", "serve", "--collection", str(collection), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield (
                int(process.stdout.readline().split(":")[-1].strip().rstrip("/")),
                psutil.Process(process.pid),
            )
        finally:
            process.terminate()
            process.wait(30)


def open_connection(port: int, sent: bytes) -> socket.socket:
    """Connect and send; a refusal of what is sent is not an error."""
    connection = socket.socket()
    connection.settimeout(5)
    with suppress(OSError):
        connection.connect(("127.0.0.1", port))
        connection.sendall(sent)
    connection.setblocking(False)
    return connection


def is_closed(connection: socket.socket) -> bool:
    """Return True if the service has closed the connection."""
    try:
        return connection.recv(65536, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def timed_request(port: int, method: str, path: str, body: bytes | None = None) -> tuple[float, int]:
    """Return the seconds of a request on a new connection, and its status; 0 if it failed."""
    started, status = time.perf_counter(), 0
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with suppress(OSError, http.client.HTTPException):
        connection.request(method, path, body, {"Content-Type": "application/octet-stream"})
        response = connection.getresponse()
        response.read()
        status = response.status
    connection.close()
    return time.perf_counter() - started, status


def memory_mib(process: psutil.Process) -> float:
    """Return the proportional set size of a process and its descendants; the resident size where there is none."""
    total = 0.0
    for each in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            info = each.memory_full_info()
            total += getattr(info, "pss", info.rss)
    return total / 2**20


def measure(case: Case, collection: Path, query: bytes, seconds: float) -> dict[str, Any]:
    """Measure one case.

    Parameters
    ----------
    case : Case
        The hostile connections.
    collection : Path
        Collection to serve.
    query : bytes
        Image file to search with.
    seconds : float
        Duration.

    Returns
    -------
    dict
        Longest times, numbers of requests and failures, memory, and whether the worker process is still the same.
    """
    with running_service(collection) as (port, process):
        worker = process.children()[0].pid
        for _ in range(3):
            timed_request(port, "POST", "/v1/search", query)
        crowd = [open_connection(port, case.sent) for _ in range(case.connections)]
        searches, checks, memory = [], [], 0.0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            searches.append(timed_request(port, "POST", "/v1/search", query))
            checks.append(timed_request(port, "GET", "/healthz"))
            memory = max(memory, memory_mib(process))
            if case.reopened:
                for number, connection in enumerate(crowd):
                    if is_closed(connection):
                        connection.close()
                        crowd[number] = open_connection(port, case.sent)
        survived = worker in [child.pid for child in process.children()]
        for connection in crowd:
            connection.close()
    return {
        "case": case.name,
        "connections": case.connections,
        "requests": len(searches) + len(checks),
        "failed": sum(status != 200 for _, status in searches + checks),
        "search_seconds": max(taken for taken, _ in searches),
        "health_seconds": max(taken for taken, _ in checks),
        "pss_mib": memory,
        "survived": survived,
    }


def build_collection(folder: Path) -> tuple[Path, bytes]:
    """Build a collection of phantoms in `folder`; return it and a query image."""
    for arguments in (
        ["dataset", "phantoms", folder / "images", "--count", "60"],
        ["index", folder / "images", "--collection", folder / "collection"],
    ):
        command = [sys.executable, "-m", "cbir.api.main", *map(str, arguments)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / "collection", next((folder / "images").rglob("*.png")).read_bytes()


def reaches_targets(result: dict[str, Any]) -> bool:
    """Return whether a case let the service answer, in time and in its memory."""
    bounded = all(result[name] <= most for name, most in TARGETS.items())
    return bounded and result["survived"] and not result["failed"]


def main() -> None:
    """Run the cases and print a table and one line of JSON; exit code 1 if a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10, help="duration of each case")
    parser.add_argument("--only", help="cases of this name only")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(FILES, hard)), hard))
    print(
        "| connections | sent | requests | failed | longest search, s | health check, s | PSS, MiB | survived |"
    )
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: | --- |")
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        collection, query = build_collection(Path(scratch))
        for case in CASES:
            if options.only in (None, case.name):
                result = measure(case, collection, query, options.seconds)
                results.append(result)
                print(
                    f"| {case.connections} | {case.name} | {result['requests']} | {result['failed']} | "
                    f"{result['search_seconds']:.2f} | {result['health_seconds']:.2f} | {result['pss_mib']:.0f} | "
                    f"{'yes' if result['survived'] else 'NO'} |",
                    flush=True,
                )
    print(
        json.dumps({"bench": "connections", "cores": os.cpu_count(), "targets": TARGETS, "results": results})
    )
    sys.exit(not all(map(reaches_targets, results)))


if __name__ == "__main__":
    main()
