"""Measure what decoding in processes with limits costs: a search of the service, indexing, and memory.

    python -m bench.decoding [--repeats 300] [--side 512]

The first figure is the time to decode and describe a PNG file in a decoder of the service less that in the process
itself, medians of alternating runs. The second is the same for `cbir index`: a file with its limits of time and
memory, in a worker process, less one without. The third is the memory of a service (PSS, with all its processes)
while it gets large images at once. Exit code 1 if a target is missed: 2 ms, 3 %, 2 GiB.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import cv2
import httpx
import numpy as np
import psutil

from cbir import settings
from cbir.evaluation.datasets.phantoms.drawing import draw_phantom
from cbir.images import Limits, decode, read_images
from cbir.ingest.decoder_tasks import ImageChoice, describe_choice
from cbir.ingest.description import DescribeTask, describe_images
from cbir.ingest.image_files import file_stamp
from cbir.ingest.process_memory import share_bytes
from cbir.ingest.process_pool import ProcessPool, prepare_to_decode
from cbir.search import describe_query
from cbir.store.base import profile as profiles
from indexer.describe_files import FileTask, describe_files
from service.collections.image_sources import Decoders

TASK = DescribeTask(profiles.get("huang2012"), b"secret", Limits())
CHUNK = 32
MOST_SEARCH_MS, MOST_INDEX_PERCENT, MOST_MIB = 2.0, 3.0, 2048


def milliseconds(call: Callable[[], Any]) -> float:
    """Return the time of one call."""
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1000


def alternate(repeats: int, calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the median time of each call, in milliseconds; they take turns, so that other load is shared."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(milliseconds(call))
    return {name: median(values) for name, values in times.items()}


def search_overhead(data: bytes, repeats: int) -> dict[str, float]:
    """Decode and describe a query in this process, and in a warm decoder of the service."""
    decoders, descriptor = Decoders(settings.Settings(decoders=1)), TASK.load_descriptor()
    decoders.start()
    decoders.warm_up(TASK, data)
    cv2.setNumThreads(1)

    def inside() -> None:
        describe_query(next(decode(data)), descriptor)

    def outside() -> None:
        with share_bytes(data) as shared:
            decoders.run(partial(describe_choice, ImageChoice(shared, "query", Limits()), TASK))

    times = alternate(repeats, {"in process": inside, "in a decoder": outside})
    return times | {"overhead ms": times["in a decoder"] - times["in process"]}


def describe_without_limits(paths: list[Path]) -> int:
    """Describe files as `describe_files` does, without limits."""
    descriptor = TASK.load_descriptor()
    files = [
        describe_images(read_images(path), descriptor, TASK.secret, str(path), file_stamp(path))
        for path in paths
    ]
    return len(files)


def index_overhead(paths: list[Path], repeats: int) -> dict[str, float]:
    """Describe a chunk of files in a worker process, with limits and without."""
    from bench.decoding import describe_without_limits as unlimited  # workers have another main module

    bounded = partial(describe_files, task=FileTask(TASK))
    with (
        ProcessPool(bounded, 1, prepare_to_decode, TASK.seconds) as limited,
        ProcessPool(unlimited, 1, prepare_to_decode) as free,
    ):
        limited.run(paths)
        free.run(paths)
        calls = {"with limits": partial(limited.run, paths), "without": partial(free.run, paths)}
        times = alternate(repeats, calls)
    return times | {"overhead %": 100 * (times["with limits"] / times["without"] - 1)}


def proportional_memory(process: psutil.Process) -> int:
    """Return the PSS of a process and of all below it, in bytes."""
    total = 0
    for member in [process, *process.children(recursive=True)]:
        try:
            total += member.memory_full_info().pss
        except psutil.Error:
            continue
    return total


def service_memory(paths: list[Path], requests: int, folder: Path) -> dict[str, Any]:
    """Send `requests` large images at once to a service with default settings; its greatest PSS."""
    command = [sys.executable, "-m", "cbir.api.main"]
    collection = folder / "collection"
    subprocess.run([*command, "index", *map(str, paths), "--collection", str(collection)], check=True)
    served = subprocess.Popen(
        [*command, "serve", "--collection", str(collection), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert served.stdout is not None
        address = served.stdout.readline().split()[-1]
        peak, ended = [0], threading.Event()

        def watch() -> None:
            while not ended.is_set():
                peak[0] = max(peak[0], proportional_memory(psutil.Process(served.pid)))
                time.sleep(0.02)

        watcher = threading.Thread(target=watch)
        watcher.start()
        statuses: dict[str, list[int]] = {}
        with ThreadPoolExecutor(requests) as threads:
            for name, data in large_images().items():
                send = partial(httpx.post, f"{address}v1/search", content=data, timeout=120)
                headers = {"Content-Type": "application/octet-stream"}
                futures = [threads.submit(send, headers=headers) for _ in range(requests)]
                statuses[name] = sorted({future.result().status_code for future in futures})
        ended.set()
        watcher.join()
        return {"peak MiB": round(peak[0] / 2**20), "statuses": statuses}
    finally:
        served.terminate()
        served.wait(30)


def large_images() -> dict[str, bytes]:
    """Files of large images, by name."""
    steps = np.arange(10_000) // 40
    grey = np.add.outer(steps, steps).astype(np.uint8)

    def png(samples: np.ndarray) -> bytes:
        return bytes(cv2.imencode(".png", samples, [cv2.IMWRITE_PNG_STRATEGY, 0])[1])

    colour = np.dstack([grey[:9900, :9900]] * 2 + [255 - grey[:9900, :9900]])
    return {
        "grey PNG": png(grey),
        "colour PNG": png(colour),
        "16 bit PNG": png(grey.astype(np.uint16) * 257),
        "colour JPEG": bytes(cv2.imencode(".jpg", colour[:8000, :8000])[1]),
        "float TIFF": bytes(cv2.imencode(".tif", grey[:3900, :3900].astype(np.float32))[1]),
    }


def reaches_targets(results: dict[str, Any]) -> bool:
    """Return whether decoding costs no more than it may."""
    memory = results.get("service", {"peak MiB": 0})["peak MiB"]
    return bool(
        results["search"]["overhead ms"] <= MOST_SEARCH_MS
        and results["index"]["overhead %"] <= MOST_INDEX_PERCENT
        and memory <= MOST_MIB
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--requests", type=int, default=8, help="large images sent at once; 0: do not")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        paths = []
        for number in range(CHUNK):
            path = Path(scratch) / f"{number:02d}.png"
            cv2.imwrite(str(path), draw_phantom(number, 0, options.side).pixels)
            paths.append(path)
        results: dict[str, Any] = {
            "search": search_overhead(paths[0].read_bytes(), options.repeats),
            "index": index_overhead(paths, max(3, options.repeats // 10)),
        }
        if options.requests:
            results["service"] = service_memory(paths, options.requests, Path(scratch))
    print(json.dumps(results, indent=1))
    sys.exit(not reaches_targets(results))


if __name__ == "__main__":
    main()
