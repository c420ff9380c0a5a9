"""Overhead of PostgreSQL over SQLite for a search: the same images in both, searched in turns.

Starts a server, and copies the collection into it as `cbir collection copy` does. Searches are the same in both, one
after the other, in changing order; answers must be equal. CPU times are those of the process that searches, without
the server, whose share is in the clock time.

    python bench/postgresql_overhead.py --collection DIR [--searches 300] [--json FILE]
"""

import argparse
import gc
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Engine, event

sys.path.insert(0, str(Path(__file__).parent.parent))  # for the server of the tests

from cbir import settings
from cbir.search import Searcher
from cbir.search.search_request import Request
from cbir.store import Collection
from cbir.store.collection_address import collection_folder
from cbir.store.upkeep.collection_copy import copy_collection
from cbir.system.cancellation import Stopwatch
from service.app import create_app
from tests.postgresql_server import PostgresqlServer

GOAL_MS = 3.0
WARM_UP = 10  # searches that are not counted
Search = Callable[[str], Any]


@contextmanager
def copied(folder: Path) -> Iterator[Path]:
    """Yield the files folder of a copy in PostgreSQL, whose server ends with it."""
    server = PostgresqlServer()
    try:
        copy = collection_folder(server.new_address())
        with Collection(folder) as source:
            copy_collection(source, copy, lambda stage, done, total: None)
        yield copy
    finally:
        server.stop()


class StatementCount:
    """Number of statements sent to databases of this process."""

    def __init__(self) -> None:
        self.count = 0
        event.listen(Engine, "before_cursor_execute", self._add)

    def _add(self, *_: Any) -> None:
        self.count += 1


def library_searches(collection: Collection, reranker: str) -> dict[str, Search]:
    """Return searches through the Searcher: by id, and by vector as uploads are once they are described."""
    searcher = Searcher(collection, settings.load())
    request = Request(k=20, rerank=reranker)

    def by_vector(image_id: str) -> Any:
        vector = collection.vector(image_id) + np.float32(0.01)
        started = time.process_time(), time.perf_counter()
        return searcher.by_examples([], request, Stopwatch(), [vector]), started

    return {
        "Searcher, by id": lambda image_id: (searcher.by_id(image_id, request, Stopwatch()), None),
        "Searcher, by vector": by_vector,
    }


def http_searches(folders: list[Path], reranker: str) -> list[dict[str, Search]]:
    """Return searches through the HTTP application, without sockets, for each of two collections."""
    app = create_app(folders, settings.load(audit_log=None))
    client = app.test_client()

    def by_id(name: str) -> Search:
        def search(image_id: str) -> Any:
            body = {"image_id": image_id, "k": 20, "rerank": reranker}
            answer = client.post(f"/v1/search?collection={name}", json=body)
            if answer.status_code != 200:
                raise SystemExit(f"the search failed: {answer.text}")
            return answer.json, None

        return search

    return [{"HTTP, by id": by_id(folder.name)} for folder in folders]


def hits_of(answer: Any) -> list[Any]:
    """Return the ids of the hits of an answer of the Searcher or of the service."""
    results = answer["results"] if isinstance(answer, dict) else answer.results
    return [hit["image_id"] if isinstance(hit, dict) else hit.image_id for hit in results]


def compare(searches: list[Search], ids: list[str], counted: StatementCount) -> list[dict[str, float]]:
    """Run a search in SQLite and in PostgreSQL by turns; return median figures of each."""
    times: list[list[tuple[float, float, int]]] = [[], []]
    for position, image_id in enumerate(ids):
        hits = {}
        for which in (0, 1) if position % 2 else (1, 0):
            before, cpu, clock = counted.count, time.process_time(), time.perf_counter()
            answer, started = searches[which](image_id)
            cpu, clock = started or (cpu, clock)
            took = (
                1000 * (time.process_time() - cpu),
                1000 * (time.perf_counter() - clock),
                counted.count - before,
            )
            hits[which] = hits_of(answer)
            if position >= WARM_UP:
                times[which].append(took)
        if hits[0] != hits[1]:
            raise SystemExit(f"the answers for {image_id} differ")
    names = ("cpu_ms", "clock_ms", "statements")
    return [
        {name: statistics.median(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
        for rows in times
    ]


def compare_all(local: Collection, remote: Collection, count: int, reranker: str) -> list[dict[str, Any]]:
    """Return the figures of every kind of search, and print a line for each."""
    random, counted = np.random.default_rng(0), StatementCount()
    all_ids = [record.image_id for _, record in local.iterate()]
    ids = [str(image_id) for image_id in random.choice(all_ids, count + WARM_UP)]
    print(f"{len(all_ids)} images, {count} searches with {reranker} each")
    print(f"{'':22}{'SQLite':>24}{'PostgreSQL':>24}{'more':>18}")
    results = []
    both = (local, remote)
    for one, other in (
        [library_searches(collection, reranker) for collection in both],
        http_searches([collection.folder.resolve() for collection in both], reranker),
    ):
        for name in one:
            sqlite, postgresql = compare([one[name], other[name]], ids, counted)
            more = {key: postgresql[key] - sqlite[key] for key in sqlite}
            print(f"{name:22}{in_line(sqlite)}{in_line(postgresql)}", end="")
            print(f"{more['cpu_ms']:+8.2f} CPU{more['clock_ms']:+7.2f} ms")
            results.append({"search": name, "sqlite": sqlite, "postgresql": postgresql, "more": more})
    return results


def in_line(row: dict[str, float]) -> str:
    """Return CPU time, clock time and number of statements as a part of a line."""
    return f"{row['cpu_ms']:9.2f} CPU{row['clock_ms']:8.2f} ms{row['statements']:3.0f}"


@contextmanager
def settings_in(folder: Path) -> Iterator[None]:
    """Keep the files of the copy, and the state of the service, in a temporary folder."""
    names = {"CBIR_COLLECTION_FILES": folder / "files", "XDG_STATE_HOME": folder / "state"}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({name: str(path) for name, path in names.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def main() -> int:
    """Print the figures of both, and the difference; 1 if it is above the goal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--collection", type=Path, required=True, help="folder; it is only read")
    parser.add_argument("--searches", type=int, default=300)
    parser.add_argument("--reranker", default="auto")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="cbir-overhead-"))
    try:
        with (
            settings_in(scratch),
            copied(arguments.collection) as copy,
            Collection(arguments.collection) as local,
            Collection(copy) as remote,
        ):
            results = compare_all(local, remote, arguments.searches, arguments.reranker)
            gc.collect()  # ends the service, which would log that the server does not answer any more
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    above = any(result["more"]["clock_ms"] > GOAL_MS for result in results)
    print(f"goal: less than {GOAL_MS:g} ms more on the clock: {'missed' if above else 'reached'}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    return int(above)


if __name__ == "__main__":
    sys.exit(main())
