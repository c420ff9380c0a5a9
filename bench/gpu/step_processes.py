"""Two processes, kill -9 of the first, and eight threads: one owner of a collection on the GPU, the same answers.

step_processes.py            measures
step_processes.py FOLDER     is one of the processes: searches on each line of its input
"""

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from drawn_collection import DrawnCollection, clustered
from step_results import GPU, SMALL, attempt, without_gpu

from cbir.errors import CollectionBusy
from cbir.gallery.gallery import Gallery
from cbir.search.snapshot_search import SnapshotSearch

COUNT, K, THREADS, SEARCHES = (20_000 if SMALL else 1_000_000), 2000, 8, 64
DEVICE: Any = "cuda" if GPU else "auto"


def serve(folder: Path) -> None:
    """Answer each line of standard input with who searched."""
    gallery = DrawnCollection(clustered(COUNT, 1), folder).view().gallery
    search = SnapshotSearch(folder, DEVICE)
    print("ready", flush=True)
    for _ in sys.stdin:
        try:
            rows = search.nearest(gallery, gallery.blocks[0][5], K, None)
            print(f"{search.device}: {'found itself' if 5 in rows else 'missed itself'}", flush=True)
        except CollectionBusy:
            print("busy", flush=True)


class Process:
    """Another process that searches in `folder`."""

    def __init__(self, folder: str) -> None:
        command = [sys.executable, __file__, folder]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        self.output, self.input = self.process.stdout, self.process.stdin
        self.output.readline()

    def search(self) -> str:
        """Return what the process says of a search."""
        print("search", file=self.input, flush=True)
        return self.output.readline().strip()


def owners() -> dict[str, Any]:
    """Let two processes search, and the second again once the first was killed."""
    with tempfile.TemporaryDirectory() as folder:
        first, second = Process(folder), Process(folder)
        answers = {"first": first.search(), "second": second.search()}
        first.process.kill()
        first.process.wait()
        began = time.perf_counter()
        answers["second_after_kill"] = second.search()
        seconds = round(time.perf_counter() - began, 2)
        second.process.kill()
        second.process.wait()
    return answers | {"seconds_after_kill": seconds}


def threads() -> dict[str, Any]:
    """Search from eight threads at once; each query gets the answer that it gets alone."""
    with tempfile.TemporaryDirectory() as folder:
        gallery = DrawnCollection(clustered(COUNT, 1), Path(folder)).view().gallery
        search = SnapshotSearch(Path(folder), DEVICE)
        queries = gallery.blocks[0][:SEARCHES] + np.float32(0.01)
        return _threads(search, gallery, queries)


def _threads(search: SnapshotSearch, gallery: Gallery, queries: np.ndarray) -> dict[str, Any]:
    def answer(query: np.ndarray) -> list[int]:
        return list(search.nearest(gallery, query, K, None).tolist())

    answer(queries[0])  # copies the vectors
    began = time.perf_counter()
    alone = [answer(query) for query in queries]
    one = time.perf_counter() - began
    began = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(answer, queries))
    eight = time.perf_counter() - began
    return {"device": search.device, "same": alone == together, "per_second": round(SEARCHES / one, 1),
            "per_second_of_eight": round(SEARCHES / eight, 1)}  # fmt: skip


def main() -> None:
    without_gpu("processes")
    attempt("processes.owners", owners)
    attempt("processes.threads", threads)


if __name__ == "__main__":
    serve(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
