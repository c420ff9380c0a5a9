"""Recall and precision of the search for duplicates, on changed copies of images.

    python -m bench.audit_duplicates COLLECTION [--copies 600] [--part report]

A new collection gets drawn images of COLLECTION, the eight nearest of each by vector, and a changed copy of
each drawn one. A copy is found if its group has its image. A pair of a reference and a copy of another image is
false.
Thresholds are tuned on images with even numbers (`--part tune`) and reported on the others.
"""

import argparse
import json
import time
from collections import defaultdict
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import cv2
import numpy as np

from bench.changed_copies import CHANGES
from bench.pointing import interval
from cbir.audit.duplicates import find_duplicates
from cbir.gallery.knn import find_neighbours
from cbir.python_api.index_folder import index_folder
from cbir.store import Collection


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collection", type=Path, help="images whose files are there, described")
    parser.add_argument("--copies", type=int, default=600)
    parser.add_argument("--part", choices=["tune", "report"], default="report")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--false-pairs", type=Path, help="picture to draw the false pairs to")
    return parser.parse_args()


def write_copies(
    paths: list[Path], count: int, part: str, seed: int, folder: Path
) -> dict[str, tuple[str, str, str]]:
    """Write changed copies; return source of the image, change and strength of each, by path."""
    random = np.random.default_rng(seed)
    own = [path for number, path in enumerate(paths) if number % 2 == (part == "report")]
    kinds = list(CHANGES)
    copies = {}
    for place, index in enumerate(random.permutation(len(own))[:count]):
        kind = kinds[place % len(kinds)]
        strength = str(random.choice(list(CHANGES[kind])))
        pixels = cv2.imread(str(own[index]), cv2.IMREAD_GRAYSCALE)
        path = folder / f"{place:05d}.png"
        cv2.imwrite(str(path), CHANGES[kind][strength](pixels, random))
        copies[str(path)] = (str(own[index]), kind, strength)
    return copies


def copy_neighbourhoods(collection: Collection, sources: set[str], folder: Path) -> None:
    """Make a collection of the images with these sources and their nearest images."""
    gallery = collection.view().gallery
    records = collection.records(gallery.ids.tolist())
    drawn = [row for row, number in enumerate(gallery.ids.tolist()) if records[number].source in sources]
    nearest = find_neighbours(gallery.vectors(np.arange(len(gallery))), gallery.space).rows[drawn]
    numbers = gallery.ids[np.union1d(drawn, nearest[nearest >= 0])]
    vectors = collection.raw_vectors(numbers)
    with Collection.create(folder, collection.profile) as made, made.writer() as writer:
        entries = zip((records[number] for number in numbers.tolist()), vectors, strict=True)
        writer.add([(replace(record, image_id=""), vector) for record, vector in entries])
        writer.snapshot()


def draw_pairs(pairs: list[tuple[str, str]], path: Path) -> None:
    """Draw pairs of pictures side by side, four in a row."""
    tiles = []
    for pair in pairs[:80]:
        pictures = [cv2.imread(source, cv2.IMREAD_GRAYSCALE) for source in pair]
        tiles.append(np.hstack([cv2.resize(picture, (128, 128)) for picture in pictures]))
    tiles += [np.zeros((128, 256), np.uint8)] * (-len(tiles) % 4)
    cv2.imwrite(str(path), np.vstack([np.hstack(tiles[row : row + 4]) for row in range(0, len(tiles), 4)]))


def main() -> None:
    arguments = options()
    with TemporaryDirectory() as temporary:
        folder, pictures = Path(temporary) / "collection", Path(temporary) / "copies"
        pictures.mkdir()
        with Collection(arguments.collection) as collection:
            records = dict(collection.iterate())
            paths = sorted(Path(record.source) for record in records.values())
            copies = write_copies(paths, arguments.copies, arguments.part, arguments.seed, pictures)
            copy_neighbourhoods(collection, {image for image, _, _ in copies.values()}, folder)
        index_folder(pictures, folder)
        with Collection(folder) as collection:
            indexed = {record.source for _, record in collection.iterate()}
            started, cpu, stages = time.perf_counter(), time.process_time(), list[tuple[str, float]]()

            def show(stage: str, done: int, total: int) -> None:
                if not stages or stages[-1][0] != stage:
                    stages.append((stage, time.process_time()))

            duplicates = find_duplicates(collection, (), show)
            seconds = time.perf_counter() - started, time.process_time() - cpu
        report(copies, indexed, duplicates, arguments)
        print(
            json.dumps(
                {
                    "images": len(indexed),
                    "compared pairs": duplicates.pairs,
                    "seconds": round(seconds[0], 1),
                    "seconds of CPU": round(seconds[1], 1),
                    "milliseconds of CPU per image": round(seconds[1] / len(indexed) * 1000, 2),
                    "stages began (CPU)": [(name, round(at - cpu, 1)) for name, at in stages],
                }
            )
        )


def report(copies, indexed, duplicates, arguments) -> None:  # type: ignore[no-untyped-def]
    origin = {source: image for source, (image, _, _) in copies.items()}
    found: dict[tuple[str, str], list[bool]] = defaultdict(list)
    named: dict[str, list[bool]] = defaultdict(list)
    group_of, change_of = {}, {}
    true_pairs, false_pairs, others = 0, list[tuple[str, str]](), 0
    for number, group in enumerate(duplicates.groups):
        sources = [member.source for member in group.members]
        for member in group.members:
            group_of[member.source], change_of[member.source] = number, member.change
        for pair in combinations(sources, 2):
            if not any(source in copies for source in pair):
                others += pair[0] == sources[0]
            elif origin.get(pair[0], pair[0]) == origin.get(pair[1], pair[1]):
                true_pairs += 1
            elif sources[0] in pair:
                false_pairs.append(pair)
    for source, (image, kind, strength) in copies.items():
        if source not in indexed:
            continue  # the very same picture: left out by the index
        hit = source in group_of and group_of[source] == group_of.get(image)
        found[kind, strength].append(hit)
        found[kind, "all"].append(hit)
        if hit and change_of[source] != "reference":
            named[kind].append(kind in change_of[source].split("+"))
    every = [hit for (_, strength), hits in found.items() if strength == "all" for hit in hits]
    print("| change | strength | copies | recall | 95 % interval | named |\n|---|---|---|---|---|---|")
    for (kind, strength), hits in sorted(found.items()):
        low, high = interval(hits)
        name = f"{np.mean(named[kind]):.2f}" if strength == "all" and named[kind] else ""
        print(
            f"| {kind} | {strength} | {len(hits)} | {np.mean(hits):.3f} | {low:.3f} to {high:.3f} | {name} |"
        )
    low, high = interval(every)
    print(f"| all | | {len(every)} | {np.mean(every):.3f} | {low:.3f} to {high:.3f} | |")
    pairs = [True] * true_pairs + [False] * len(false_pairs)
    print(f"\nprecision {np.mean(pairs):.4f}, {interval(pairs)[0]:.4f} to {interval(pairs)[1]:.4f}: "
          f"{true_pairs} pairs with their image, {len(false_pairs)} with another; {others} pairs of two images "
          "of the collection besides")  # fmt: skip
    if arguments.false_pairs and false_pairs:
        draw_pairs(false_pairs, arguments.false_pairs)


if __name__ == "__main__":
    main()
