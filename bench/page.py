"""Times of the search page and Browse in Chromium, over a collection made large by repeating images.

    python bench/page.py [--collection FOLDER] [--images 100000] [--keep FOLDER] [--tries 9]

Every copy of an image has its own id, a link to the file of its own and a raw vector with noise; thumbnails are
rendered from files. Every try has an empty browser cache, and drops an image that the collection does not have.
"""

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright import sync_api

from cbir.store import Collection, Record

CHROMIUM = "/usr/bin/chromium"
BATCH = 2000  # images added at a time
NOISE = 0.3  # of the standard deviation of each value
TARGETS_MS = {"first paint": 500, "file to results with pictures": 500, "key to screen, typing a filter": 50}
VIEWPORT: Any = {"width": 1440, "height": 900}

# Resolves when all pictures of `selector` that are in sight have loaded, with the time since `start`.
PICTURES = """([selector, start]) => new Promise((resolve) => {
    const inSight = (image) => {
        const { top, bottom } = image.getBoundingClientRect();
        return bottom > 0 && top < innerHeight;
    };
    const look = () => {
        const images = [...document.querySelectorAll(selector)].filter(inSight);
        const loaded = images.filter((image) => image.complete && image.naturalWidth);
        if (images.length && loaded.length === images.length) resolve(performance.now() - start);
        else requestAnimationFrame(look);
    };
    look();
})"""
FIRST_PICTURE = """(selector) => new Promise((resolve) => {
    const look = () => {
        const images = [...document.querySelectorAll(selector)];
        if (images.some((image) => image.complete && image.naturalWidth)) resolve(performance.now());
        else requestAnimationFrame(look);
    };
    look();
})"""
FIRST_PAINT = """() => new Promise((resolve) => {
    const look = () => {
        const entry = performance.getEntriesByName("first-contentful-paint")[0];
        entry ? resolve(entry.startTime) : requestAnimationFrame(look);
    };
    look();
})"""
DROP = """(bytes) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([new Uint8Array(bytes)], "query.png", { type: "image/png" }));
    const start = performance.now();
    const event = new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true });
    document.getElementById("drop").dispatchEvent(event);
    return start;
}"""
# From each key to the end of the frame that follows it.
WATCH_KEYS = """() => {
    window.keyTimes = [];
    document.addEventListener("keydown", (event) => {
        requestAnimationFrame(() => setTimeout(() => window.keyTimes.push(performance.now() - event.timeStamp)));
    }, true);
}"""


def run_cbir(*arguments: object) -> None:
    subprocess.run(
        [sys.executable, "-m", "cbir.api.main", *map(str, arguments)], check=True, capture_output=True
    )


def make_source(folder: Path) -> Path:
    """Index phantoms in `folder` and return the collection."""
    run_cbir("dataset", "phantoms", folder / "phantoms", "--count", 2000)
    labels = folder / "phantoms" / "manifest.csv"
    run_cbir("index", folder / "phantoms", "--collection", folder / "source", "--labels", labels)
    return folder / "source"


def copy_of(record: Record, number: int, links: Path) -> Record:
    """Return the record of the copy `number` of an image, whose file is a link."""
    link = links / f"{number:07d}{Path(record.source).suffix}"
    link.symlink_to(record.source)
    return replace(record, image_id="", source=str(link))


def enlarge(source: Path, folder: Path, images: int) -> None:
    """Make a collection of `images` images in `folder` by repeating those of the collection `source`."""
    links = folder / "images"
    links.mkdir(parents=True)
    random = np.random.default_rng(0)
    with Collection(source) as original, Collection.create(folder / "collection", original.profile) as copy:
        rows = list(original.iterate())
        spread = original.raw_vectors(np.array([number for number, _ in rows[:BATCH]])).std(axis=0) * NOISE
        with copy.writer() as writer:
            for start in range(0, images, BATCH):
                part = [rows[index % len(rows)] for index in range(start, min(start + BATCH, images))]
                stored = dict(zip(*original_vectors(original, part), strict=True))
                raw = np.stack([stored[number] for number, _ in part])
                raw += random.standard_normal(raw.shape, np.float32) * spread
                records = [copy_of(record, start + index, links) for index, (_, record) in enumerate(part)]
                writer.add(list(zip(records, raw, strict=True)), duplicates=True)
            writer.finish()


def original_vectors(original: Collection, part: list[tuple[int, Record]]) -> tuple[list[int], Any]:
    """Return the numbers of the images of a part, each once and ascending, and their raw vectors."""
    numbers = sorted({number for number, _ in part})
    return numbers, original.raw_vectors(np.array(numbers))


def queries(collection: Path, count: int) -> list[bytes]:
    """Return PNG files of images that the collection does not have: parts of some that it has."""
    with Collection(collection) as opened:
        records = [record for _, record in opened.iterate()]
    drawn = np.random.default_rng(1).permutation(len(records))[:count]
    files = []
    for index in drawn:
        with Image.open(records[index].source) as image:
            width, height = image.size
            buffer = io.BytesIO()
            image.crop((width // 16, height // 16, width, height)).save(buffer, "PNG")
            files.append(buffer.getvalue())
    return files


@contextmanager
def serving(collection: Path) -> Iterator[str]:
    """Run `cbir serve` and yield the address of the page."""
    command = [sys.executable, "-m", "cbir.api.main", "serve", "--collection", str(collection), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout
        yield process.stdout.readline().split()[-1].rstrip("/")
    finally:
        process.terminate()
        process.wait()


def measure(
    browser: sync_api.Browser, address: str, files: list[bytes]
) -> tuple[dict[str, list[float]], Any]:
    """Return the milliseconds of each try by what was timed, and what the pages asked of other origins."""
    times: dict[str, list[float]] = {}
    elsewhere: list[str] = []

    def note(name: str, ms: float) -> None:
        times.setdefault(name, []).append(ms)

    for file in files:
        context = browser.new_context(viewport=VIEWPORT)
        context.on(
            "request",
            lambda request: request.url.startswith((address, "blob:")) or elsewhere.append(request.url),
        )
        page = context.new_page()
        response = page.goto(address)
        policy = response.headers["content-security-policy"] if response else ""
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        note("first paint", page.evaluate(FIRST_PAINT))
        note("examples with pictures", page.evaluate(PICTURES, ["#start .card img", 0]))
        start = page.evaluate(DROP, list(file))
        note("file to results with pictures", page.evaluate(PICTURES, ["#columns .column .card img", start]))
        search = "performance.getEntriesByType('resource').find(e => e.name.endsWith('/v1/search')).duration"
        note("of these, the search", page.evaluate(search))
        page.wait_for_selector("#columns:not([aria-busy]) .column")
        page.evaluate(WATCH_KEYS)
        page.focus("#where")
        page.keyboard.type("label=knee; modality=CT")
        note("key to screen, typing a filter", max(page.evaluate("window.keyTimes")))
        gallery = context.new_page()
        gallery.goto(f"{address}/browse")
        note("gallery: first paint", gallery.evaluate(FIRST_PAINT))
        note("gallery: first tile", gallery.evaluate(FIRST_PICTURE, "#grid img"))
        note("gallery: all tiles in sight", gallery.evaluate(PICTURES, ["#grid img", 0]))
        context.close()
    return times, elsewhere


def print_results(times: dict[str, list[float]], elsewhere: list[str], images: int, load: float) -> None:
    print(f"{images:,} images, load {load:.1f}\n\n| ms | median | most | target |\n|---|---|---|---|")
    for name, values in times.items():
        print(
            f"| {name} | {statistics.median(values):.0f} | {max(values):.0f} | {TARGETS_MS.get(name, '')} |"
        )
    print(f"\nRequests to other origins: {len(elsewhere)}.")
    print(json.dumps({name: [round(value, 1) for value in values] for name, values in times.items()}))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--collection", type=Path, help="whose images are repeated; phantoms by default")
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument(
        "--keep", type=Path, help="folder for the large collection, used again if it is there"
    )
    parser.add_argument("--tries", type=int, default=9)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch) / "large"
        if not (folder / "collection").exists():
            enlarge(arguments.collection or make_source(Path(scratch)), folder, arguments.images)
        files = queries(folder / "collection", arguments.tries + 1)
        with serving(folder / "collection") as address, sync_api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            measure(browser, address, files[:1])  # warms up the service
            times, elsewhere = measure(browser, address, files[1:])
            browser.close()
    print_results(times, elsewhere, arguments.images, os.getloadavg()[0])


if __name__ == "__main__":
    main()
