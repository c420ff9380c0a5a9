"""Maps of a collection: seconds, bytes, how well neighbours are kept, and frames a second of the page.

    python bench/map.py COLLECTION [--images 100000] [--label label] [--no-browser | --page-only]

With --images, rows are repeated with noise until there are so many. Frames are measured in Chromium while the map is
dragged and zoomed; without a graphics card it draws by software.
With --page-only nothing else is measured, of a collection that has a map.
"""

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree
from werkzeug.serving import WSGIRequestHandler, make_server

from cbir import settings
from cbir.gallery.vector_blocks import Floats
from cbir.store import Collection, Record
from cbir.store.snapshot.derived_files import MAP_FILE, StoredMap, write_map
from cbir.store.views.collection_view import View
from service.app import create_app
from service.features.map.collection_map import compute_map, current_places

NEAREST = 10
SAMPLE = 2000  # images whose neighbours are compared
NOISE = 0.3  # of a repeated row, as a share of the deviation of each value
LEFT_OUT = 0.1  # of the images, to be placed afterwards
FRAMES = """async count => {
    const times = []; let last = performance.now();
    for (let at = 0; at < count; at += 1) {
        await new Promise(requestAnimationFrame);
        const now = performance.now(); times.push(now - last); last = now;
    }
    return times.slice(1);
}"""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collection", type=Path)
    parser.add_argument("--images", type=int, help="repeat rows until there are so many")
    parser.add_argument("--label", default="label")
    parser.add_argument("--no-browser", action="store_true")
    parser.add_argument("--page-only", action="store_true")
    return parser.parse_args()


def enlarge(source: Path, folder: Path, count: int, label: str) -> Path:
    """Write a collection of `count` images, rows of another with noise, and a snapshot of it."""
    random = np.random.default_rng(0)
    with Collection(source) as collection:
        ids = collection.view().gallery.ids
        raw, labels = collection.raw_vectors(ids), collection.labels_by_number(label)
        target = Collection.create(folder, collection.profile)
    deviation = raw.std(axis=0)
    with target, target.writer() as writer:
        for start in range(0, count, len(ids)):
            rows = min(len(ids), count - start)
            vectors = raw[:rows] + (
                random.normal(size=(rows, raw.shape[1])) * NOISE * deviation if start else 0
            )
            writer.add([
                (
                    Record(
                        content_hash=f"{start + row:032x}", source=f"/{start + row}.png", source_stamp="1",
                        format="png", width=1, height=1, labels={label: labels.get(int(ids[row]), "")},
                    ),
                    vectors[row].astype(np.float32),
                )
                for row in range(rows)
            ])  # fmt: skip
        writer.snapshot()
    return folder


def quality(view: View, positions: Floats, values: np.ndarray) -> dict[str, float]:
    """Return the figures of a map: see bench/results/map.md."""
    units, _ = view.gallery.space.transform(view.gallery.vectors(np.arange(len(positions))))
    sample = np.sort(
        np.random.default_rng(0).choice(len(positions), min(SAMPLE, len(positions)), replace=False)
    )
    _, near = cKDTree(positions).query(positions[sample], NEAREST + 1)
    near = np.array(
        [[other for other in row if other != own][:NEAREST] for own, row in zip(sample, near, strict=True)]
    )
    kept, penalty, agreement = [], 0.0, []
    for own, on_map in zip(sample, near, strict=True):
        likeness = units @ units[own]
        likeness[own] = -2
        nearest = np.argpartition(-likeness, NEAREST)[:NEAREST]
        kept.append(len(set(nearest) & set(on_map)) / NEAREST)
        ranks = (likeness[None, :] > likeness[on_map][:, None]).sum(axis=1) + 1
        penalty += np.maximum(ranks - NEAREST, 0).sum()
        agreement.append((np.mean(values[on_map] == values[own]), np.mean(values[nearest] == values[own])))
    count = len(positions)
    on_map, exact = np.mean(agreement, axis=0)
    return {
        "neighbours_kept": float(np.mean(kept)),
        "trustworthiness": 1 - 2 * penalty / (len(sample) * NEAREST * (2 * count - 3 * NEAREST - 1)),
        "label_agreement_map": float(on_map),
        "label_agreement_vectors": float(exact),
    }


def placed_later(view: View, stored: StoredMap) -> Floats:
    """Return the positions of all images when a tenth of them were not on the map."""
    left_out = np.random.default_rng(1).random(len(stored)) < LEFT_OUT
    fewer = StoredMap(stored.numbers[~left_out], stored.positions[~left_out], stored.transform)
    return current_places(view, fewer)


class Silent(WSGIRequestHandler):
    """Prints no requests."""

    def log(self, *_: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as state:
        app = create_app(folder, settings.load(state_folder=state))
        server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Silent)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def frames(address: str) -> dict[str, object]:
    """Return the milliseconds until the map is seen, and of its frames while it moves."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{address}/browse")
        page.wait_for_selector("#map:not([aria-busy])", timeout=120_000)
        started = time.perf_counter()
        page.reload()
        page.wait_for_selector("#map:not([aria-busy])", timeout=120_000)
        loading = time.perf_counter() - started
        renderer = page.evaluate(
            """() => { const gl = document.createElement("canvas").getContext("webgl");
            const about = gl?.getExtension("WEBGL_debug_renderer_info");
            return about ? gl.getParameter(about.UNMASKED_RENDERER_WEBGL) : "no WebGL"; }"""
        )
        measured: dict[str, object] = {"page_ms": round(1000 * loading), "renderer": renderer}
        idle = page.evaluate(FRAMES, 60)
        for name, move in (
            ("drag", "dispatch('pointermove', 300 + 4 * at, 300 + 2 * at)"),
            (
                "zoom",
                "overlay.dispatchEvent(new WheelEvent('wheel', {...zoom, deltaY: at < 30 ? -60 : 60}))",
            ),
        ):
            times = page.evaluate(
                f"""async () => {{
                const overlay = document.getElementById("overlay");
                overlay.setPointerCapture = () => {{}};
                const zoom = {{ clientX: 700, clientY: 500, cancelable: true }};
                const pointer = {{ pointerId: 1, pointerType: "mouse" }};
                const dispatch = (type, clientX, clientY) =>
                    overlay.dispatchEvent(new PointerEvent(type, {{ ...pointer, clientX, clientY }}));
                dispatch("pointerdown", 300, 300);
                const times = []; let last = performance.now();
                for (let at = 0; at < 60; at += 1) {{
                    {move};
                    await new Promise(requestAnimationFrame);
                    const now = performance.now(); times.push(now - last); last = now;
                }}
                dispatch("pointerup", 600, 500);
                return times.slice(1); }}"""
            )
            measured[f"{name}_ms_median"] = round(float(np.median(times)), 1)
            measured[f"{name}_ms_worst"] = round(float(np.max(times)), 1)
        measured["idle_ms_median"] = round(float(np.median(idle)), 1)
        browser.close()
    return measured


def main() -> None:
    chosen = options()
    if chosen.page_only:
        with served(chosen.collection) as address:
            print(json.dumps(frames(address) | {"cores": len(os.sched_getaffinity(0))}))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.collection
        if chosen.images:
            folder = enlarge(folder, Path(temporary, "collection"), chosen.images, chosen.label)
        with Collection(folder) as collection:
            view, labels = collection.view(), collection.labels_by_number(chosen.label)
            started, cpu = time.perf_counter(), time.process_time()
            stored = compute_map(view, collection.profile)
            figures: dict[str, object] = {
                "images": len(stored),
                "seconds": round(time.perf_counter() - started, 1),
                "cpu_seconds": round(time.process_time() - cpu, 1),
            }
            values = np.array([labels.get(int(number), "") for number in view.gallery.ids])
            figures |= quality(view, stored.positions, values)
            started = time.perf_counter()
            later = placed_later(view, stored)
            figures["placing_seconds"] = round(time.perf_counter() - started, 2)
            figures["placed_later"] = quality(view, later, values)
            if folder == chosen.collection:
                with tempfile.TemporaryDirectory() as other:
                    write_map(Path(other), stored)
                    figures["bytes"] = Path(other, MAP_FILE).stat().st_size
            else:
                write_map(folder, stored)
                figures["bytes"] = (folder / MAP_FILE).stat().st_size
        if not chosen.no_browser and folder != chosen.collection:
            with served(folder) as address:
                figures |= frames(address)
    for name, figure in figures.items():
        print(f"{name:24} {figure}")
    print(json.dumps(figures | {"cores": len(os.sched_getaffinity(0))}))


if __name__ == "__main__":
    main()
