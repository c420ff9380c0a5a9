"""Time descriptors and encoders on one thread, including decoding.

Images are synthetic grey PNG of 512 x 512 pixels (soft shapes, bones, noise) and, with --data or CBIR_DATA, a sample
of the real images in FOLDER/composite/images. Drawing is not timed. Times are of the processor, so that other work on
the machine counts little.

    python bench/describe.py [--data FOLDER] [--count 200] [--repeats 3] [--encoders lite0 lite0-max]
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir import descriptors
from cbir.images import read_images
from cbir.store.writing.default_profile import DEFAULT_PROFILE

TARGETS = {"huang2012": 250, DEFAULT_PROFILE: 100}  # images per second, 512 x 512, decoding included


def radiograph(seed: int, size: int) -> NDArray[np.uint8]:
    """Draw a radiograph-like picture: soft tissue, bones with sharp edges, a dark surround, detector noise."""
    rng = np.random.default_rng(seed)
    picture = np.full((size, size), 12, np.float32)
    for softness, count, thickness in ((size / 16, 4, 0.35), (size / 100, 9, 0.12), (1.2, 14, 0.04)):
        layer = np.zeros_like(picture)
        for _ in range(count):
            centre = rng.uniform(0.2, 0.8, 2) * size
            axes = rng.uniform(0.3, 1.0, 2) * size * (thickness, 0.35)
            box = (centre.tolist(), (2 * axes).tolist(), rng.uniform(0, 180))
            cv2.ellipse(layer, box, rng.uniform(20, 70), -1)
        picture += cv2.GaussianBlur(layer, (0, 0), softness)
    picture += rng.normal(0, 2.5, picture.shape)
    return np.clip(picture, 0, 255).astype(np.uint8)


def draw_radiographs(folder: Path, count: int, size: int) -> list[Path]:
    """Write grey PNG files of such pictures."""
    paths = [folder / f"{seed:05d}.png" for seed in range(count)]
    for seed, path in enumerate(paths):
        cv2.imwrite(str(path), radiograph(seed, size))
    return paths


def sample_images(folder: Path, count: int) -> list[Path]:
    """Return a fixed random sample of the real images."""
    paths = sorted(path for path in (folder / "composite" / "images").rglob("*") if path.is_file())
    return random.Random(0).sample(paths, min(count, len(paths)))


def milliseconds(work: Callable, items: Iterable, repeats: int) -> float:
    """Return the best mean CPU time of `work` over all items, in milliseconds an item."""
    items = list(items)
    best = float("inf")
    for _ in range(repeats):
        started = time.process_time()
        for item in items:
            work(item)
        best = min(best, time.process_time() - started)
    return 1000 * best / len(items)


def measure(paths: list[Path], repeats: int, encoders: Sequence[str]) -> dict[str, float]:
    """Return milliseconds per image by step; `decode, NAME` is decoding and describing, image by image."""
    encoded = [np.fromfile(path, np.uint8) for path in paths]
    images = [image for path in paths for image in read_images(path)]
    steps = {
        "decode (cv2)": milliseconds(lambda data: cv2.imdecode(data, cv2.IMREAD_UNCHANGED), encoded, repeats),
        "decode (cbir)": milliseconds(lambda path: next(iter(read_images(path))), paths, repeats),
    }
    for name in (*descriptors.names(), *encoders):
        describe = descriptors.get(descriptors.resolve_descriptor(name).name)
        describe(images[0])  # loads the network
        steps[name] = milliseconds(describe, images, repeats)
        if name in (*TARGETS, *encoders):
            steps[f"decode, {name}"] = milliseconds(
                lambda path: describe(next(iter(read_images(path)))),  # noqa: B023
                paths,
                repeats,
            )
    return {step: round(value, 3) for step, value in steps.items()}


def report(title: str, paths: list[Path], repeats: int, encoders: Sequence[str]) -> dict[str, float]:
    """Print a table and return its values."""
    steps = measure(paths, repeats, encoders)
    print(f"\n{title}: {len(paths)} images\n")
    print(f"{'step':24s}{'ms per image':>12s}{'images/s':>12s}")
    for step, value in steps.items():
        print(f"{step:24s}{value:12.3f}{1000 / value:12.0f}")
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("CBIR_DATA"), help="folder of real images"
    )
    parser.add_argument("--count", type=int, default=200, help="number of images of each kind")
    parser.add_argument("--size", type=int, default=512, help="side of the synthetic images in pixels")
    parser.add_argument("--repeats", type=int, default=3, help="passes, of which the best is reported")
    parser.add_argument("--encoders", nargs="+", default=["lite0", DEFAULT_PROFILE], help="encoders to time")
    options = parser.parse_args()
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as folder:
        paths = draw_radiographs(Path(folder), options.count, options.size)
        title = f"Drawn, {options.size} x {options.size}"
        result = {"drawn": report(title, paths, options.repeats, options.encoders)}
    if options.data:
        sample = sample_images(Path(options.data), options.count)
        result["real"] = report("Real", sample, options.repeats, options.encoders)
    else:
        print("\nno real images: neither --data nor CBIR_DATA is given", file=sys.stderr)
    steps = [(name, f"decode, {name}") for name in TARGETS]
    rates = {name: round(1000 / result["drawn"][step], 1) for name, step in steps if step in result["drawn"]}
    print()
    print(json.dumps({"images_per_second": rates, "targets": TARGETS, "size": options.size, "ms": result}))


if __name__ == "__main__":
    main()
