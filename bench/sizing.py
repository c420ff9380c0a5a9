"""Measure the size of a collection and the time of its operations, by the number of images.

Vectors are random, records like those of a DICOM archive. bench/index.py and bench/describe.py measure decoding and
describing.

    python bench/sizing.py [--profile NAME] [--sizes 1000 10000 100000]
"""

import argparse
import hashlib
import json
import os
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from cbir.search import Request, Searcher, Stopwatch
from cbir.settings import Settings
from cbir.store import Collection, Record
from cbir.store.base import profile as profiles
from cbir.store.base.profile import Profile
from cbir.store.upkeep.backup import back_up_collection
from cbir.store.upkeep.restore import open_or_fallback
from cbir.store.writing.default_profile import DEFAULT_PROFILE
from cbir.store.writing.writer import Entry
from cbir.system.threads import cores

BATCH = 512
QUERIES = 30


def entry(number: int, vector: np.ndarray) -> Entry:
    """An image as one of an archive is recorded."""
    uid = f"1.2.840.113619.2.55.3.604688119.971.1234567890.{number}"
    digest = hashlib.blake2b(str(number).encode(), digest_size=16).hexdigest()
    record = Record(
        content_hash=digest,
        source=f"/archive/{number // 1000:06d}/{uid}.dcm",
        source_stamp=f"{number}-1700000000000000000",
        format="dicom",
        width=2000,
        height=2500,
        study=f"{uid}.1",
        series=f"{uid}.1.1",
        instance=f"{uid}.1.1.1",
        patient_key=digest,
        labels={
            "modality": "CR",
            "body_part": "CHEST",
            "view_position": "PA",
            "label": f"class-{number % 30}",
        },
    )
    return record, vector


def size_on_disk(folder: Path) -> int:
    """Bytes of a folder's files, each counted once however many links it has."""
    found = {(s := path.stat()).st_ino: s.st_size for path in folder.rglob("*") if path.is_file()}
    return sum(found.values())


def fill(folder: Path, images: int, profile: Profile) -> dict[str, float]:
    """Make the collection; the seconds of adding and of the snapshot with the last good copy."""
    dimensions = profile.load_descriptor().dimensions
    rng = np.random.default_rng(0)
    with Collection.create(folder, profile) as collection, collection.writer() as writer:
        started = time.perf_counter()
        for first in range(0, images, BATCH):
            count = min(BATCH, images - first)
            vectors = rng.standard_normal((count, dimensions), dtype=np.float32)
            writer.add([entry(first + n, vectors[n]) for n in range(count)])
        added = time.perf_counter()
        writer.finish()
        ended = time.perf_counter()
    return {"add_s": added - started, "snapshot_s": ended - added}


def search(folder: Path, images: int, answer: Connection) -> None:
    """Open and search in a process of its own, as the service would; sends seconds, milliseconds and memory."""
    started = time.perf_counter()
    with open_or_fallback(folder) as collection:
        searcher = Searcher(collection, Settings())
        request = Request(k=20, rerank="eprf")
        ids = [r.image_id for r in collection.records(range(1, images, max(1, images // QUERIES))).values()]
        searcher.by_id(ids[0], request, Stopwatch())
        opened = time.perf_counter() - started
        took = [searcher.by_id(one, request, Stopwatch()).timings_ms["total"] for one in ids]
    answer.send({"open_s": opened, "query_ms": float(np.median(took)), "memory_mib": peak_memory()})


def peak_memory() -> float:
    """MiB of this process at most; ru_maxrss would also count its parent's before the start of the program."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def measure(images: int, profile: Profile) -> dict[str, Any]:
    """All there is to say of a collection of so many images."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "collection"
        found: dict[str, Any] = {"images": images} | fill(folder, images, profile)
        found["disk_mib"] = size_on_disk(folder) / 2**20
        found["last_good_mib"] = (folder / "last-good" / "collection.sqlite").stat().st_size / 2**20
        here, there = get_context("spawn").Pipe()
        process = get_context("spawn").Process(target=search, args=(folder, images, there))
        process.start()
        found |= here.recv()
        process.join()
        started = time.perf_counter()
        with Collection(folder) as collection:
            back_up_collection(collection, Path(scratch) / "backup")
        found["backup_s"] = time.perf_counter() - started
    return found


def main() -> None:
    """Print a table and one JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--profile", default=DEFAULT_PROFILE, help="descriptor or encoder")
    options = parser.parse_args()
    profile = profiles.get(options.profile)
    print(f"{cores()} cores, load {os.getloadavg()[0]:.1f}")
    columns = ("images", "add_s", "snapshot_s", "disk_mib", "last_good_mib", "open_s", "query_ms", "memory_mib",
               "backup_s")  # fmt: skip
    print("".join(f"{name:>14}" for name in columns))
    results = []
    for images in options.sizes:
        found = measure(images, profile)
        print("".join(f"{found[name]:14.1f}" if name != "images" else f"{images:14}" for name in columns))
        results.append(found)
    print(json.dumps({"bench": "sizing", "profile": profile.name, "results": results}))


if __name__ == "__main__":
    main()
