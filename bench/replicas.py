"""Throughput of two services over one collection in PostgreSQL against that of one.

All of them, the database and the clients share the cores of this machine, so that two cores show what a second
service costs; that more machines answer more requests is shown only on several. Turns with one service and with two
alternate.

    python bench/replicas.py --collection FOLDER --images FOLDER [--clients 1 8 32] [--seconds 10] [--turns 3]
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from load import SEARCH_PATH, link_files

from cbir.ingest.image_files import find_images
from tests.postgresql_server import PostgresqlServer

QUERIES = 500  # different query images
MEMORY = {"shared_buffers": "512MB"}


@contextmanager
def running_service(address: str, files: Path, state: Path) -> Iterator[str]:
    """Run a service over a collection as on a machine of its own; yield its address."""
    environment = os.environ | {"CBIR_COLLECTION_FILES": str(files), "CBIR_STATE_FOLDER": str(state)}
    command = [sys.executable, "-m", "cbir.api.main", "serve", "--collection", address, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1].rstrip("/")
    finally:
        process.terminate()
        process.wait(30)


def copy_collection(collection: Path, address: str, files: Path) -> None:
    """Copy a collection into PostgreSQL."""
    command = [sys.executable, "-m", "cbir.api.main", "collection", "copy", str(collection), address]
    environment = os.environ | {"CBIR_COLLECTION_FILES": str(files)}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def measure(
    addresses: Sequence[str], rerank: str, clients: int, queries: Path, seconds: int
) -> dict[str, float]:
    """Return searches a second of all services together, and the 99th percentile of the slowest."""
    script = str(Path(__file__).with_name("load_clients.py"))
    share = max(1, clients // len(addresses))
    running = [
        subprocess.Popen(
            [sys.executable, script, address, SEARCH_PATH.format(rerank), "--images", str(queries),
             "--clients", str(share), "--seconds", str(seconds)],
            stdout=subprocess.PIPE, text=True,
        )
        for address in addresses[:clients]
    ]  # fmt: skip
    results: list[dict[str, Any]] = [json.loads(process.communicate()[0]) for process in running]
    return {
        "rate": sum(result["answered"] for result in results) / seconds,
        "p99_ms": max(result["p99_ms"] for result in results),
        "failed": sum(result["failed"] for result in results),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--collection", type=Path, required=True, help="in a folder; it is copied")
    parser.add_argument("--images", type=Path, required=True, help="folder of images to search with")
    parser.add_argument("--reranks", nargs="+", default=["none", "auto"])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    server = PostgresqlServer(**MEMORY)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as services:
        services.callback(server.stop)
        folder, address = Path(scratch), server.new_address()
        paths = sorted(find_images([options.images]))
        link_files(folder / "queries", paths[:: max(1, len(paths) // QUERIES)][:QUERIES])
        copy_collection(options.collection, address, folder / "files")
        shutil.copytree(folder / "files", folder / "second")  # what a second machine is given
        addresses = [
            services.enter_context(running_service(address, folder / files, folder / f"state-{files}"))
            for files in ("files", "second")
        ]
        rows = []
        for rerank, clients in product(options.reranks, options.clients):
            measure(addresses, rerank, 2, folder / "queries", 1)
            turns = [
                [
                    measure(addresses[:count], rerank, clients, folder / "queries", options.seconds)
                    for count in (1, 2)
                ]
                for _ in range(options.turns)
            ]
            one, two = (statistics.median(turn[count]["rate"] for turn in turns) for count in (0, 1))
            rows.append({"rerank": rerank, "clients": clients, "one": one, "two": two, "turns": turns})
            print(f"{rerank:6} {clients:3} clients: {one:6.1f} and {two:6.1f} searches a second", flush=True)
        print(json.dumps({"bench": "replicas", "load": os.getloadavg()[0], "results": rows}))


if __name__ == "__main__":
    main()
