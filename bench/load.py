"""What the service stands: many clients at once, for a minute, against what the library does without it.

`cbir serve` runs as a process of its own and is asked by wrk (Debian package wrk) as another, both on this machine,
so the cores are shared by all three. Every request sends an image file and asks for EPRF over the whole collection.

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
QUERIES = 100  # different images that are asked with
ASKED = "/v1/search?k=20&rerank=eprf"
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
  asked = math.random(#requests)
end
function setup(thread) threads[#threads + 1] = thread end
function request() asked = asked % #requests + 1; return requests[asked] end
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


def collect(folder: Path, data: Path | None, images: int) -> list[Path]:
    """Make a collection of so many images in `folder`; files to ask with."""
    if data is None:
        data = folder / "phantoms"
        run("phantoms", data, "--count", images)
    paths = list(find_images([data]))
    chosen = random.Random(0).sample(paths, min(images, len(paths)))
    links = folder / "images"
    links.mkdir()
    for number, path in enumerate(chosen):
        (links / f"{number:06d}{path.suffix}").symlink_to(path)
    run("index", links, "--collection", folder / "collection", "--duplicates", accepted=(0, 3))
    return chosen[:QUERIES]


def run(*arguments: object, accepted: tuple[int, ...] = (0,)) -> None:
    """Run a `cbir` command."""
    command = [sys.executable, "-m", "cbir.main", *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode not in accepted:
        sys.exit(done.stderr)


def ask(searcher: Searcher, data: Path) -> dict[str, float]:
    """One query without the service; its stages in milliseconds."""
    watch = Stopwatch()
    image = select_frame(read_images(data), None, "query")
    return searcher.by_image(image, Request(k=20, rerank="eprf"), watch).timings_ms


def bare(searcher: Searcher, queries: list[Path], threads: int, seconds: float) -> float:
    """Queries a second of the library alone, by so many threads."""
    numbers, answered, over = count(), [0] * threads, time.perf_counter() + seconds

    def work(mine: int) -> None:
        while time.perf_counter() < over:
            ask(searcher, queries[next(numbers) % len(queries)])
            answered[mine] += 1

    started = time.perf_counter()
    workers = [threading.Thread(target=work, args=(mine,)) for mine in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(answered) / (time.perf_counter() - started)


def stages_cpu(searcher: Searcher, queries: list[Path]) -> float:
    """Milliseconds of processor time a query takes to describe, search and re-rank, and nothing else."""
    describe = searcher.collection.profile.load_descriptor(searcher.settings.device)
    images = [select_frame(read_images(path), None, "query") for path in queries]
    started = time.process_time()
    for image in images:
        searcher.rank(describe(image), image.content_hash, Request(k=20, rerank="eprf"))
    return 1000 * (time.process_time() - started) / len(images)


@contextmanager
def serving(collection: Path) -> Iterator[tuple[str, psutil.Process]]:
    """The service's address, and the process that answers."""
    command = [sys.executable, "-m", "cbir.main", "serve", "--collection", str(collection), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1].rstrip("/")
        yield address, psutil.Process(process.pid).children()[0]
    finally:
        process.terminate()
        process.wait(30)


def overhead(address: str, process: psutil.Process, queries: list[Path]) -> tuple[float, float]:
    """Of lone requests, in milliseconds: the median time not spent describing, searching or re-ranking, which
    other load on the machine lengthens; and the processor time of the service for each, which it does not."""
    found = []
    before = cpu_seconds(process)
    for path in queries:
        data = path.read_bytes()
        request = urllib.request.Request(address + ASKED, data, {"Content-Type": "application/octet-stream"})
        started = time.perf_counter()
        with urllib.request.urlopen(request) as response:
            answer = json.loads(response.read())
        took = (time.perf_counter() - started) * 1000
        found.append(took - sum(answer["timings_ms"][stage] for stage in STAGES))
    return float(np.median(found)), 1000 * (cpu_seconds(process) - before) / len(queries)


def cpu_seconds(process: psutil.Process) -> float:
    """Processor time of a process so far."""
    times = process.cpu_times()
    return times.user + times.system


def load_it(address: str, queries: list[Path], clients: int, seconds: int, script: Path) -> dict[str, Any]:
    """Let wrk ask for so long; what came back, and the processor time it used itself (seconds)."""
    script.write_text(SCRIPT)
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "30s", "-s", str(script)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*command, address + ASKED, "--", *map(str, queries)], capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return found | {"rate": found["answered"] / found["seconds"], "wrk_cpu_seconds": used}


class Memory:
    """Resident memory of a process in MiB, once a second until it is told to stop."""

    def __init__(self, process: psutil.Process) -> None:
        self.process = process
        self.seen: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(1.0):
            self.seen.append(self.process.memory_info().rss / 2**20)

    def stop(self) -> dict[str, float]:
        """The greatest of each quarter of the time."""
        self._over.set()
        self._thread.join()
        quarters = np.array_split(np.array(self.seen), 4)
        return {
            f"quarter_{n}": round(float(part.max()), 1) for n, part in enumerate(quarters, 1) if len(part)
        }


def report(found: dict[str, Any], options: argparse.Namespace) -> None:
    """Print a table and one JSON line."""
    quarters = list(found["memory_mib"].values())
    print(f"{found['images']} images, {options.clients} clients, {found['seconds']:.0f} s, {ASKED}")
    print(f"answered                     {found['answered']:10}")
    print(f"refused with 429             {found['refused']:10}")
    print(f"failed                       {found['failed']:10}")
    print(f"throughput                   {found['rate']:10.1f} queries/s")
    print(f"the library alone            {found['library_rate']:10.1f} queries/s")
    print(f"share                        {found['share']:10.0%} (target {TARGETS['share']:.0%})")
    print(
        f"processor time of a query    {found['cpu_ms']:10.1f} ms, {found['library_cpu_ms']:.1f} in the library alone"
    )
    print(f"latency p50                  {found['p50_ms']:10.1f} ms")
    print(f"latency p99                  {found['p99_ms']:10.1f} ms")
    print(
        f"overhead of a lone request   {found['overhead_ms']:10.2f} ms (target {TARGETS['overhead_ms']:.0f})"
    )
    print(f"  in processor time          {found['overhead_cpu_ms']:10.2f} ms")
    print(f"memory by quarters           {' '.join(f'{mib:.0f}' for mib in quarters):>10} MiB")
    print(json.dumps(found | {"bench": "load", "targets": TARGETS}))


def main() -> None:
    """Ask, and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of images; phantoms are drawn if not given")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("wrk is not installed: apt-get install wrk")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        queries = collect(folder, options.data, options.images)
        found = measure(folder, queries, options)
    report(found, options)


def measure(folder: Path, queries: list[Path], options: argparse.Namespace) -> dict[str, Any]:
    """The service and the library in turns, so that both meet the same other load on the machine."""
    turns = max(1, round(options.seconds / TURN_SECONDS))
    span = options.seconds // turns
    with Collection(folder / "collection") as collection:
        searcher, images = Searcher(collection, load()), len(collection)
        stages = [ask(searcher, path) for path in queries]
        library_cpu = stages_cpu(searcher, queries)
        started = time.process_time()
        for path in queries:
            ask(searcher, path)
        full_cpu = 1000 * (time.process_time() - started) / len(queries)
        with serving(folder / "collection") as (address, process):
            alone, service_cpu = overhead(address, process, queries)
            memory, before = Memory(process), cpu_seconds(process)
            asked, library = [], []
            for _ in range(turns):
                asked.append(load_it(address, queries, options.clients, span, folder / "load.lua"))
                library.append(bare(searcher, queries, searcher.settings.threads, span))
            resident, used = memory.stop(), cpu_seconds(process) - before
    totals = {
        name: sum(turn[name] for turn in asked) for name in ("answered", "refused", "failed", "seconds")
    }
    rate = totals["answered"] / totals["seconds"]
    return totals | {
        "images": images,
        "rate": rate,
        "rates": [turn["rate"] for turn in asked],
        "library_rate": float(np.mean(library)),
        "library_rates": library,
        "share": rate / float(np.mean(library)),
        "p50_ms": float(np.median([turn["p50_ms"] for turn in asked])),
        "p99_ms": max(turn["p99_ms"] for turn in asked),
        "cpu_ms": 1000 * used / totals["answered"],
        "library_cpu_ms": full_cpu,
        "overhead_ms": alone,
        "overhead_cpu_ms": service_cpu - library_cpu,
        "memory_mib": resident,
        "stages_ms": {name: float(np.median([stage[name] for stage in stages])) for name in stages[0]},
        "wrk_cpu_seconds": sum(turn["wrk_cpu_seconds"] for turn in asked),
    }


if __name__ == "__main__":
    main()
