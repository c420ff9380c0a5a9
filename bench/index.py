"""Measure the speed and the memory of `cbir index`.

Compares `cbir index` with N processes to N times the rate of one process that decodes and describes without storing.

    python bench/index.py --data FOLDER [--profile NAME] [--jobs 2] [--count 0]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import cv2
import psutil

from cbir import descriptors
from cbir.evaluation.datasets import phantoms
from cbir.images import read_images
from cbir.ingest.image_files import find_images
from cbir.store.writing.default_profile import DEFAULT_PROFILE
from cbir.system.threads import cores


def describe_rate(paths: list[Path], profile: str) -> float:
    """Return the images per second that this process decodes and describes."""
    cv2.setNumThreads(1)
    describe = descriptors.get(descriptors.resolve_descriptor(profile).name)
    for image in read_images(paths[0]):
        describe(image)
    started = time.perf_counter()
    for path in paths:
        for image in read_images(path):
            describe(image)
    return len(paths) / (time.perf_counter() - started)


def watch(process: subprocess.Popen, peak: dict[str, int]) -> None:
    """Keep the greatest memory of the main process (unshared, bytes) while it runs."""
    watched = psutil.Process(process.pid)
    while process.poll() is None:
        try:
            peak["bytes"] = max(peak["bytes"], watched.memory_full_info().uss)
        except psutil.Error:
            return
        time.sleep(0.05)


def index(folder: Path, count: int, jobs: int, profile: str) -> dict[str, float]:
    """Run `cbir index` on the first `count` images; its rate and memory."""
    with tempfile.TemporaryDirectory() as scratch:
        links = Path(scratch) / "images"
        links.mkdir()
        for number, path in enumerate(list(find_images([folder]))[:count]):
            (links / f"{number:06d}{path.suffix}").symlink_to(path)
        command = [
            sys.executable,
            "-m",
            "cbir.api.main",
            "index",
            str(links),
            "--collection",
            f"{scratch}/collection",
            "--profile",
            profile,
        ]
        peak = {"bytes": 0}
        started = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--jobs", str(jobs), "--format", "json"], stdout=subprocess.PIPE
        )
        watcher = threading.Thread(target=watch, args=(process, peak))
        watcher.start()
        output, _ = process.communicate()
        wall = time.perf_counter() - started
        watcher.join()
        summary = json.loads(output)
    return {
        "images": summary["indexed"],
        "seconds": summary["seconds"],
        "wall_seconds": round(wall, 2),
        "rate": summary["indexed"] / summary["seconds"],
        "peak_mib": peak["bytes"] / 2**20,
    }


def main() -> None:
    """Print a table and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of images; phantoms by default")
    parser.add_argument("--jobs", type=int, default=cores())
    parser.add_argument("--count", type=int, default=0, help="number of images; 0: all (or 600 phantoms)")
    parser.add_argument("--profile", default=DEFAULT_PROFILE, help="descriptor or encoder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.data
        if folder is None:
            folder = Path(scratch)
            phantoms.write_phantoms(folder, options.count or 600)
        paths = list(find_images([folder]))
        count = options.count or len(paths)
        sample = paths[:count][:: max(1, count // 2000)]
        one = describe_rate(sample, options.profile)
        small = index(folder, max(1, count // 4), options.jobs, options.profile)
        full = index(folder, count, options.jobs, options.profile)
    share = full["rate"] / (options.jobs * one)
    growth = (full["peak_mib"] - small["peak_mib"]) / max(1, full["images"] - small["images"]) * 2**20
    print(f"one process, decode and describe      {one:8.0f} images/s")
    print(f"cbir index, {options.jobs} processes             {full['rate']:8.0f} images/s")
    print(f"share of {options.jobs} times one process        {share:8.0%}")
    print(f"memory of the main process, all       {full['peak_mib']:8.0f} MiB")
    print(f"its growth per image                  {growth:8.0f} bytes")
    print(
        json.dumps({"one_process": one, "share": share, "growth_bytes": growth, "jobs": options.jobs, **full})
    )


if __name__ == "__main__":
    main()
