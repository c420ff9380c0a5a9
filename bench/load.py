"""Load test of the service: throughput and latency with many clients, compared with the library alone.

`cbir serve` and the clients (`bench/load_clients.py`) run as separate processes on this machine, so they share its
cores. Every request uploads another image file. Loads and the library alternate, so other work on the machine affects
all alike.

    python bench/load.py [--data FOLDER] [--images 10000] [--loads eprf:32 none:32 eprf:200] [--seconds 60]
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from cbir.images import read_images
from cbir.ingest.image_files import find_images
from cbir.search import Request, Searcher, Stopwatch, select_frame
from cbir.settings import load as load_settings
from cbir.store import Collection

TURN_SECONDS = 10
QUERIES = 1000  # different query images
LOADS = ("eprf:32", "none:32", "eprf:200")
SEARCH_PATH = "/v1/search?k=20&rerank={}"
STAGES = ("describe", "search", "rerank")  # the rest of a request is overhead
TARGETS = {
    "share": 0.8,
    "overhead_ms": 5.0,
    "eprf:32 rate": 70.0,
    "none:32 rate": 100.0,
    "eprf:200 p99_ms": 2000.0,
}


def build_collection(folder: Path, data: Path | None, images: int) -> list[Path]:
    """Build a collection in `folder` and return query files, as far as possible images that are not in it.

    Parameters
    ----------
    folder : Path
        Folder for the collection and its images.
    data : Path or None
        Folder of image files; phantoms are generated for None.
    images : int
        Number of images.
    """
    if data is None:
        data = folder / "phantoms"
        run_cbir("dataset", "phantoms", data, "--count", images + QUERIES)
    paths = sorted(find_images([data]))
    random.Random(0).shuffle(paths)
    sample, others = paths[:images], paths[images:]
    link_files(folder / "images", sample)
    options = ("--profile", "huang2012", "--duplicates")
    run_cbir("index", folder / "images", "--collection", folder / "collection", *options, accepted=(0, 3))
    return link_files(folder / "queries", [*others, *sample][:QUERIES])


def link_files(folder: Path, paths: list[Path]) -> list[Path]:
    """Create `folder` with a link to each of `paths`; return the links."""
    folder.mkdir()
    links = [folder / f"{number:06d}{path.suffix}" for number, path in enumerate(paths)]
    for link, path in zip(links, paths, strict=True):
        link.symlink_to(path)
    return links


def run_cbir(*arguments: object, accepted: tuple[int, ...] = (0,)) -> None:
    """Run a `cbir` command with `arguments`; exit if its code is not in `accepted`."""
    command = [sys.executable, "-m", "cbir.api.main", *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode not in accepted:
        sys.exit(done.stderr)


def search_once(searcher: Searcher, data: Path) -> dict[str, float]:
    """Search with the image file `data` without the service; return the stages in milliseconds."""
    stopwatch = Stopwatch()
    image = select_frame(read_images(data), None, "query")
    return searcher.by_image(image, Request(k=20, rerank="eprf"), stopwatch).timings_ms


def library_rate(searcher: Searcher, queries: list[Path], threads: int, seconds: float) -> float:
    """Return the queries per second of the library alone.

    Parameters
    ----------
    searcher : Searcher
        Searcher of the collection.
    queries : list of Path
        Query files, used in turn.
    threads : int
        Number of threads.
    seconds : float
        Duration.
    """
    numbers, answered, end = count(), [0] * threads, time.perf_counter() + seconds

    def work(thread: int) -> None:
        while time.perf_counter() < end:
            search_once(searcher, queries[next(numbers) % len(queries)])
            answered[thread] += 1

    started = time.perf_counter()
    workers = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(answered) / (time.perf_counter() - started)


def stages_cpu_ms(searcher: Searcher, queries: list[Path]) -> float:
    """Return the CPU time of a query in milliseconds, for describing, searching and re-ranking only."""
    describe = searcher.collection.profile.load_descriptor(searcher.settings.device)
    images = [select_frame(read_images(path), None, "query") for path in queries]
    started = time.process_time()
    for image in images:
        searcher.rank(describe(image), image.content_hash, Request(k=20, rerank="eprf"))
    return 1000 * (time.process_time() - started) / len(images)


@contextmanager
def running_service(collection: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Run the service over `collection`; yield its address and its main process."""
    command = [sys.executable, "-m", "cbir.api.main", "serve", "--collection", str(collection), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1].rstrip("/")
        yield address, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)


def measure_overhead(address: str, process: psutil.Process, queries: list[Path]) -> tuple[float, float]:
    """Return the overhead of single requests in milliseconds, as wall time and as CPU time.

    Parameters
    ----------
    address : str
        Address of the service.
    process : psutil.Process
        Its main process.
    queries : list of Path
        Query files.

    Returns
    -------
    tuple of float
        Median time not spent describing, searching or re-ranking (other load on the machine lengthens it), and CPU
        time of the service per request (other load does not).
    """
    overheads = []
    before = cpu_seconds(process)
    for path in queries:
        data = path.read_bytes()
        request = urllib.request.Request(
            address + SEARCH_PATH.format("eprf"), data, {"Content-Type": "application/octet-stream"}
        )
        started = time.perf_counter()
        with urllib.request.urlopen(request) as response:
            answer = json.loads(response.read())
        elapsed = (time.perf_counter() - started) * 1000
        overheads.append(elapsed - sum(answer["timings_ms"][stage] for stage in STAGES))
    return float(np.median(overheads)), 1000 * (cpu_seconds(process) - before) / len(queries)


def cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU time of `process` and the processes it started so far."""
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def run_clients(address: str, load: str, queries: Path, seconds: int) -> dict[str, Any]:
    """Run the clients of a load; return what they report.

    Parameters
    ----------
    address : str
        Address of the service.
    load : str
        Re-ranker and number of clients, as `eprf:32`.
    queries : Path
        Folder of query files.
    seconds : int
        Duration.
    """
    rerank, clients = load.split(":")
    script = Path(__file__).with_name("load_clients.py")
    command = [sys.executable, str(script), address, SEARCH_PATH.format(rerank), "--images", str(queries)]
    command += ["--clients", clients, "--seconds", str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


class MemorySampler:
    """Sampler of the memory (PSS) of a process and those it started, in MiB, once a second until it is stopped."""

    def __init__(self, process: psutil.Process) -> None:
        self.process = process
        self.samples: list[float] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stopped.wait(1.0):
            processes = self.process, *self.process.children(recursive=True)
            self.samples.append(sum(each.memory_full_info().pss for each in processes) / 2**20)

    def stop(self) -> dict[str, float]:
        """Stop and return the maximum of each quarter of the time."""
        self._stopped.set()
        self._thread.join()
        quarters = np.array_split(np.array(self.samples), 4)
        return {
            f"quarter_{n}": round(float(part.max()), 1) for n, part in enumerate(quarters, 1) if len(part)
        }


def print_report(figures: dict[str, Any]) -> None:
    """Print the `figures` as a table and one JSON line."""
    print(f"{figures['images']} images, load averages {figures['load_averages']}")
    print(f"{'':<10}{'queries/s':>10}{'p50':>8}{'p90':>8}{'p99':>8}{'max':>8} ms"
          f"{'answered':>10}{'refused':>9}{'failed':>8}{'clients use':>13} of a core")  # fmt: skip
    for load, row in figures["loads"].items():
        print(f"{load:<10}{row['rate']:10.1f}{row['p50_ms']:8.0f}{row['p90_ms']:8.0f}{row['p99_ms']:8.0f}"
              f"{row['max_ms']:8.0f}   {row['answered']:10}{row['refused']:9}{row['failed']:8}"
              f"{row['client_cores']:13.0%}")  # fmt: skip
    first = next(iter(figures["loads"]))
    print(f"the library alone          {figures['library_rate']:8.1f} queries/s (eprf)")
    print(f"share of {first:<18}{figures['share']:8.0%} (target {TARGETS['share']:.0%})")
    print(f"CPU time of a query        {figures['service_cpu_ms']:8.1f} ms")
    print(f"  in the library           {figures['library_cpu_ms']:8.1f} ms")
    print(
        f"overhead of a request      {figures['overhead_ms']:8.2f} ms (target {TARGETS['overhead_ms']:.0f})"
    )
    print(
        f"memory by quarters         {' '.join(f'{mib:.0f}' for mib in figures['memory_mib'].values())} MiB"
    )
    print(json.dumps(figures | {"bench": "load", "targets": TARGETS}))


def main() -> None:
    """Run the load test and print its report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of images; phantoms are generated by default")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--loads", nargs="+", default=LOADS, help="re-ranker:clients")
    parser.add_argument("--seconds", type=int, default=60, help="duration of each load")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        queries = build_collection(folder, options.data, options.images)
        figures = measure_loads(folder, queries, options.loads, options.seconds)
    print_report(figures)


def measure_loads(folder: Path, queries: list[Path], loads: list[str], seconds: int) -> dict[str, Any]:
    """Measure all loads and the library in turns.

    Parameters
    ----------
    folder : Path
        Folder of `build_collection`.
    queries : list of Path
        Query files.
    loads : list of str
        Re-rankers and numbers of clients.
    seconds : int
        Duration of each load.
    """
    turns = max(1, round(seconds / TURN_SECONDS))
    span, few = seconds // turns, queries[:100]
    with Collection(folder / "collection") as collection:
        searcher, images = Searcher(collection, load_settings()), len(collection)
        stages = [search_once(searcher, path) for path in few]
        library_cpu = stages_cpu_ms(searcher, few)
        started = time.process_time()
        for path in few:
            search_once(searcher, path)
        full_cpu = 1000 * (time.process_time() - started) / len(few)
        with running_service(folder / "collection") as (address, process):
            alone, service_cpu = measure_overhead(address, process, few)
            memory, results = MemorySampler(process), {name: [] for name in loads}
            rates = []
            for _ in range(turns):
                for name in loads:
                    results[name].append(run_clients(address, name, folder / "queries", span))
                rates.append(library_rate(searcher, queries, searcher.settings.threads, span))
            resident = memory.stop()
    rows = {name: combine_turns(turns_of_load) for name, turns_of_load in results.items()}
    return {
        "images": images,
        "load_averages": [round(average, 1) for average in os.getloadavg()],
        "loads": rows,
        "library_rate": float(np.mean(rates)),
        "library_rates": rates,
        "share": next(iter(rows.values()))["rate"] / float(np.mean(rates)),
        "library_cpu_ms": full_cpu,
        "service_cpu_ms": service_cpu,
        "overhead_ms": alone,
        "overhead_cpu_ms": service_cpu - library_cpu,
        "memory_mib": resident,
        "stages_ms": {name: float(np.median([stage[name] for stage in stages])) for name in stages[0]},
    }


def combine_turns(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Combine the turns of a load: sums of counts, the median p50 and p90, the worst p99 and maximum."""
    totals = {
        name: sum(turn[name] for turn in turns) for name in ("answered", "refused", "failed", "seconds")
    }
    return totals | {
        "rate": totals["answered"] / totals["seconds"],
        "rates": [turn["answered"] / turn["seconds"] for turn in turns],
        "client_cores": sum(turn["cpu_seconds"] for turn in turns) / totals["seconds"],
        **{name: float(np.median([turn[name] for turn in turns])) for name in ("p50_ms", "p90_ms")},
        **{name: max(turn[name] for turn in turns) for name in ("p99_ms", "max_ms", "refused_p99_ms")},
    }


if __name__ == "__main__":
    main()
