"""Load test of the service: throughput and latency with many clients, compared with the library alone.

`cbir serve` and its load generator wrk (Debian package wrk) run as separate processes on this machine, so they share
its cores. Every request uploads an image file and re-ranks the whole collection by EPRF.

    python bench/load.py [--data FOLDER] [--images 10000] [--clients 32] [--seconds 60]
"""

import argparse
import json
import random
import resource
import shutil
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
from cbir.settings import load
from cbir.store import Collection

TURN_SECONDS = 10
QUERIES = 100  # different query images
SEARCH_PATH = "/v1/search?k=20&rerank=eprf"
STAGES = ("describe", "search", "rerank")  # the rest of a request is overhead
TARGETS = {"share": 0.8, "overhead_ms": 5.0}

SCRIPT = """
local requests, statuses, threads = {}, {}, {}
function init(paths)
  for _, path in ipairs(paths) do
    local file = io.open(path, "rb")
    local headers = {["Content-Type"] = "application/octet-stream"}
    requests[#requests + 1] = wrk.format("POST", nil, headers, file:read("*a"))
    file:close()
  end
  last = math.random(#requests)
end
function setup(thread) threads[#threads + 1] = thread end
function request() last = last % #requests + 1; return requests[last] end
answered, refused, failed = 0, 0, 0
function response(status)
  if status == 200 then answered = answered + 1
  elseif status == 429 then refused = refused + 1
  else failed = failed + 1 end
end
function done(summary, latency)
  local a, r, f = 0, 0, 0
  for _, thread in ipairs(threads) do
    a, r, f = a + thread:get("answered"), r + thread:get("refused"), f + thread:get("failed")
  end
  local e = summary.errors
  io.write(string.format('{"answered":%d,"refused":%d,"failed":%d,"seconds":%f,"p50_ms":%f,"p99_ms":%f,"max_ms":%f}\\n',
    a, r, f + e.connect + e.read + e.write + e.timeout, summary.duration / 1e6,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000, latency.max / 1000))
end
"""


def build_collection(folder: Path, data: Path | None, images: int) -> list[Path]:
    """Build a collection in `folder` and return query files.

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
        run_cbir("phantoms", data, "--count", images)
    paths = list(find_images([data]))
    sample = random.Random(0).sample(paths, min(images, len(paths)))
    links = folder / "images"
    links.mkdir()
    for number, path in enumerate(sample):
        (links / f"{number:06d}{path.suffix}").symlink_to(path)
    run_cbir("index", links, "--collection", folder / "collection", "--duplicates", accepted=(0, 3))
    return sample[:QUERIES]


def run_cbir(*arguments: object, accepted: tuple[int, ...] = (0,)) -> None:
    """Run a `cbir` command with `arguments`; exit if its code is not in `accepted`."""
    command = [sys.executable, "-m", "cbir.main", *map(str, arguments)]
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
    """Run the service over `collection`; yield its address and its worker process."""
    command = [sys.executable, "-m", "cbir.main", "serve", "--collection", str(collection), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1].rstrip("/")
        yield address, psutil.Process(process.pid).children()[0]
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
        Its worker process.
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
            address + SEARCH_PATH, data, {"Content-Type": "application/octet-stream"}
        )
        started = time.perf_counter()
        with urllib.request.urlopen(request) as response:
            answer = json.loads(response.read())
        elapsed = (time.perf_counter() - started) * 1000
        overheads.append(elapsed - sum(answer["timings_ms"][stage] for stage in STAGES))
    return float(np.median(overheads)), 1000 * (cpu_seconds(process) - before) / len(queries)


def cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU time of `process` so far."""
    times = process.cpu_times()
    return times.user + times.system


def run_wrk(address: str, queries: list[Path], clients: int, seconds: int, script: Path) -> dict[str, Any]:
    """Send requests by wrk; return its counts and latencies, and its own CPU time in seconds.

    Parameters
    ----------
    address : str
        Address of the service.
    queries : list of Path
        Query files.
    clients : int
        Number of connections.
    seconds : int
        Duration.
    script : Path
        File to write the wrk script to.
    """
    script.write_text(SCRIPT)
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "30s", "-s", str(script)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*command, address + SEARCH_PATH, "--", *map(str, queries)], capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return result | {"rate": result["answered"] / result["seconds"], "wrk_cpu_seconds": used}


class MemorySampler:
    """Sampler of the resident memory of a process in MiB, once a second until it is stopped."""

    def __init__(self, process: psutil.Process) -> None:
        self.process = process
        self.samples: list[float] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stopped.wait(1.0):
            self.samples.append(self.process.memory_info().rss / 2**20)

    def stop(self) -> dict[str, float]:
        """Stop and return the maximum of each quarter of the time."""
        self._stopped.set()
        self._thread.join()
        quarters = np.array_split(np.array(self.samples), 4)
        return {
            f"quarter_{n}": round(float(part.max()), 1) for n, part in enumerate(quarters, 1) if len(part)
        }


def print_report(figures: dict[str, Any], options: argparse.Namespace) -> None:
    """Print the `figures` as a table and one JSON line; `options` are those of the command."""
    quarters = list(figures["memory_mib"].values())
    print(f"{figures['images']} images, {options.clients} clients, {figures['seconds']:.0f} s, {SEARCH_PATH}")
    print(f"answered                     {figures['answered']:10}")
    print(f"refused with 429             {figures['refused']:10}")
    print(f"failed                       {figures['failed']:10}")
    print(f"throughput                   {figures['rate']:10.1f} queries/s")
    print(f"the library alone            {figures['library_rate']:10.1f} queries/s")
    print(f"share                        {figures['share']:10.0%} (target {TARGETS['share']:.0%})")
    print(
        f"CPU time of a query          {figures['cpu_ms']:10.1f} ms, {figures['library_cpu_ms']:.1f} in the library"
    )
    print(f"latency p50                  {figures['p50_ms']:10.1f} ms")
    print(f"latency p99                  {figures['p99_ms']:10.1f} ms")
    print(
        f"overhead of a request        {figures['overhead_ms']:10.2f} ms (target {TARGETS['overhead_ms']:.0f})"
    )
    print(f"  in CPU time                {figures['overhead_cpu_ms']:10.2f} ms")
    print(f"memory by quarters           {' '.join(f'{mib:.0f}' for mib in quarters):>10} MiB")
    print(json.dumps(figures | {"bench": "load", "targets": TARGETS}))


def main() -> None:
    """Run the load test and print its report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of images; phantoms are generated by default")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("wrk is not installed: apt-get install wrk")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        queries = build_collection(folder, options.data, options.images)
        figures = measure_load(folder, queries, options)
    print_report(figures, options)


def measure_load(folder: Path, queries: list[Path], options: argparse.Namespace) -> dict[str, Any]:
    """Measure service and library in turns, so that other load on the machine affects both alike.

    Parameters
    ----------
    folder : Path
        Folder of `build_collection`.
    queries : list of Path
        Query files.
    options : argparse.Namespace
        Options of the command.
    """
    turns = max(1, round(options.seconds / TURN_SECONDS))
    span = options.seconds // turns
    with Collection(folder / "collection") as collection:
        searcher, images = Searcher(collection, load()), len(collection)
        stages = [search_once(searcher, path) for path in queries]
        library_cpu = stages_cpu_ms(searcher, queries)
        started = time.process_time()
        for path in queries:
            search_once(searcher, path)
        full_cpu = 1000 * (time.process_time() - started) / len(queries)
        with running_service(folder / "collection") as (address, process):
            alone, service_cpu = measure_overhead(address, process, queries)
            memory, before = MemorySampler(process), cpu_seconds(process)
            loads, rates = [], []
            for _ in range(turns):
                loads.append(run_wrk(address, queries, options.clients, span, folder / "load.lua"))
                rates.append(library_rate(searcher, queries, searcher.settings.threads, span))
            resident, used = memory.stop(), cpu_seconds(process) - before
    totals = {
        name: sum(turn[name] for turn in loads) for name in ("answered", "refused", "failed", "seconds")
    }
    rate = totals["answered"] / totals["seconds"]
    return totals | {
        "images": images,
        "rate": rate,
        "rates": [turn["rate"] for turn in loads],
        "library_rate": float(np.mean(rates)),
        "library_rates": rates,
        "share": rate / float(np.mean(rates)),
        "p50_ms": float(np.median([turn["p50_ms"] for turn in loads])),
        "p99_ms": max(turn["p99_ms"] for turn in loads),
        "cpu_ms": 1000 * used / totals["answered"],
        "library_cpu_ms": full_cpu,
        "overhead_ms": alone,
        "overhead_cpu_ms": service_cpu - library_cpu,
        "memory_mib": resident,
        "stages_ms": {name: float(np.median([stage[name] for stage in stages])) for name in stages[0]},
        "wrk_cpu_seconds": sum(turn["wrk_cpu_seconds"] for turn in loads),
    }


if __name__ == "__main__":
    main()
