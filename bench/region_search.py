"""Region search: is the image that a region was cut from found, by its cells and by whole-image search?

    python bench/region_search.py COLLECTION [--sample 200] [--seed 0]

Run `cbir collection regions --collection COLLECTION` first. Regions as of bench/pointing.py, a quarter to 45 % of
each side and not blank, are drawn in the image as it is, in a brighter or darker copy, and in a copy that is smaller
(60 to 90 %), elsewhere on black and in other brightness and contrast. Whole-image search describes the region, cut
out, as an image of its own. The source itself is what is looked for.
"""

import argparse
import time
from collections import defaultdict
from pathlib import Path

import cv2
import numpy as np
import pointing

from cbir import settings
from cbir.images import Image, crop
from cbir.learn.severity.stored_images import read_stored_image
from cbir.search.feature_cells import Area
from cbir.search.region_cells import RegionTemplate, compare_cells, region_encoder, template_of
from cbir.store import Collection
from cbir.store.snapshot.derived_files import read_cells


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collection", type=Path)
    parser.add_argument("--sample", type=int, default=200, help="regions")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def pixels_of(image: Image, area: Area) -> tuple[int, int, int, int]:
    left, top, across, down = area
    x, y = round(left * image.width), round(top * image.height)
    width, height = max(1, round(across * image.width)), max(1, round(down * image.height))
    return x, y, min(width, image.width - x), min(height, image.height - y)


def overlap(first: Area, second: Area) -> float:
    """Return the intersection over the union of two boxes."""
    sides = [
        min(a + length_a, b + length_b) - max(a, b)
        for a, length_a, b, length_b in zip(first[:2], first[2:], second[:2], second[2:], strict=True)
    ]
    shared = max(sides[0], 0) * max(sides[1], 0)
    return shared / (first[2] * first[3] + second[2] * second[3] - shared)


def main() -> None:
    arguments = options()
    cv2.setNumThreads(1)
    random, most = np.random.default_rng(arguments.seed), settings.load().max_pixels
    ranks: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    seconds, overlaps = list[float](), defaultdict[str, list[float]](list)
    with Collection(arguments.collection) as collection:
        encoder, cells = region_encoder(collection.profile), read_cells(collection.folder)
        if cells is None:
            raise SystemExit("the collection has no cells; run `cbir collection regions` first")
        view, describe = collection.view(), collection.profile.load_descriptor()
        numbers = view.gallery.ids
        records = collection.records(numbers.tolist())
        drawn = 0
        for number in random.permutation(numbers).tolist():
            image = read_stored_image(collection, records[number], most)
            area = None if image is None else pointing.draw_region(image.pixels, random)
            if image is None or area is None:
                continue
            bright = 255 * (image.pixels / 255.0) ** random.choice(
                [random.uniform(0.7, 0.9), random.uniform(1.1, 1.4)]
            )
            changed, target = pointing.change(image.pixels, area, random)
            for kind, pixels, region in (
                ("as it is", image.pixels, area),
                ("brighter or darker", bright.astype(np.uint8), area),
                ("smaller, elsewhere, other brightness", changed, target),
            ):
                query = Image(np.ascontiguousarray(pixels))
                started = time.perf_counter()
                parts = template_of(
                    encoder, cells.projection, encoder.prepare(query), (query.width, query.height), region
                )
                found, scores, boxes = compare_cells(cells, RegionTemplate(*parts), numbers)
                seconds.append(time.perf_counter() - started)
                places = np.flatnonzero(found == number)
                if len(places):
                    ranks[kind, "region"].append(int((scores > scores[places[0]]).sum()) + 1)
                    overlaps[kind].append(overlap(tuple(boxes[places[0]].tolist()), area))
                else:  # not among the candidates
                    ranks[kind, "region"].append(len(found) + 1)
                    overlaps[kind].append(0.0)
                raw = describe(crop(query, pixels_of(query, region)))
                distances = view.gallery.distances(view.statistics.normalise(raw))
                row = int(np.searchsorted(numbers, number))
                ranks[kind, "whole image"].append(int((distances < distances[row]).sum()) + 1)
            drawn += 1
            if drawn == arguments.sample:
                break
    size = sum(part.nbytes for part in cells.parts)
    print(f"{drawn} regions; {len(cells.numbers()):,} images, cells {size / 2**20:.0f} MiB")
    median, late = np.percentile(seconds, [50, 95])
    print(f"seconds a search: median {median:.2f}, 95th percentile {late:.2f}")
    print("\n| region | search | first | in the first 10 | median rank | mean overlap |")
    print("| --- | --- | --- | --- | --- | --- |")
    for (kind, method), found_ranks in ranks.items():
        values = np.array(found_ranks)
        shared = f"{np.mean(overlaps[kind]):.2f}" if method == "region" else ""
        print(
            f"| {kind} | {method} | {np.mean(values == 1):.3f} | {np.mean(values <= 10):.3f} "
            f"| {np.median(values):.0f} | {shared} |"
        )


if __name__ == "__main__":
    main()
