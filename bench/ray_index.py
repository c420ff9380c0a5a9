"""Measure `cbir index` on Ray nodes of this machine against processes without Ray.

On one machine this shows what Ray costs, not how it scales: the nodes share its cores.

    python bench/ray_index.py --data FOLDER [--count 400] [--profile NAME] [--workers 1 2]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from cbir.evaluation.datasets import phantoms
from cbir.ingest.image_files import find_images
from cbir.store.writing.default_profile import DEFAULT_PROFILE

LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}


def start_nodes(count: int) -> tuple[object, str]:
    """Start `count` nodes of one CPU each; return the cluster, and the address of its head."""
    from ray.cluster_utils import Cluster

    node = {
        "num_cpus": 1,
        "object_store_memory": 128 * 2**20,
        "node_ip_address": "127.0.0.1",
        "include_dashboard": False,
    }
    cluster = Cluster(initialize_head=True, head_node_args=node)
    for _ in range(count - 1):
        cluster.add_node(**node)
    cluster.wait_for_nodes()
    return cluster, cluster.address


def index(folder: Path, profile: str, options: list[str]) -> dict[str, float]:
    """Run `cbir index` into a new collection; its rate, wall time and the CPU use of the machine."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            sys.executable,
            "-m",
            "cbir.api.main",
            "index",
            str(folder),
            "--collection",
            f"{scratch}/collection",
        ]
        psutil.cpu_percent()
        started = time.perf_counter()
        process = subprocess.run(
            [*command, "--profile", profile, "--format", "json", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        wall = time.perf_counter() - started
        summary = json.loads(process.stdout)
        return {
            "images": summary["indexed"] + summary["duplicates"],
            "seconds": summary["seconds"],
            "wall": wall,
            "cpu": psutil.cpu_percent(),
        }


def report(name: str, run: dict[str, float]) -> None:
    """Print a row."""
    rate = run["images"] / run["seconds"]
    print(
        f"| {name} | {rate:.0f} | {run['seconds']:.1f} s | {run['wall']:.1f} s | {run['cpu']:.0f} % |",
        flush=True,
    )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of images; phantoms by default")
    parser.add_argument("--count", type=int, default=400, help="number of images")
    parser.add_argument("--profile", default=DEFAULT_PROFILE, help="descriptor or encoder")
    parser.add_argument(
        "--workers", type=int, nargs="+", default=[1, 2], help="numbers of processes, or nodes"
    )
    options = parser.parse_args()
    os.environ |= LOOPBACK
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "images")
        folder.mkdir()
        if options.data is None:
            phantoms.write_phantoms(folder, options.count)
        else:
            for number, path in enumerate(list(find_images([options.data]))[: options.count]):
                (folder / f"{number:06d}{path.suffix}").symlink_to(path)
        print("| | images/s | run | with start | CPU of the machine |\n|---|---:|---:|---:|---:|")
        for workers in options.workers:
            report(f"`--jobs {workers}`", index(folder, options.profile, ["--jobs", str(workers)]))
            cluster, address = start_nodes(workers)
            try:
                report(
                    f"`--ray`, {workers} node(s) of one CPU",
                    index(folder, options.profile, ["--ray", address]),
                )
            finally:
                cluster.shutdown()


if __name__ == "__main__":
    main()
