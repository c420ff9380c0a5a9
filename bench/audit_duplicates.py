"""Recall and precision of the search for duplicates, on changed copies of images.

    python -m bench.audit_duplicates COLLECTION [--copies 600] [--part report] [--folder FOLDER]
    python -m bench.audit_duplicates COLLECTION --whole [--images 100000]

A new collection gets drawn images of COLLECTION, the eight nearest of each by vector, and a changed copy of each
drawn one. A copy is found if its group has its image. Precision is of the lines of `duplicates.csv` that compare a
copy with the first of its group: false if they are of different images. Lines of images that the source has twice
are counted apart: their files, unmoved and of the same size, have a correlation of 0.995 in one of four flips. Of the
false lines, those whose images are the same picture by their keypoints (`bench.keypoints`) are counted once more.
`--part tune` takes images with even numbers, to tune thresholds on; `--part report` the others. `--whole` makes no
copies, but measures the time for the images of COLLECTION themselves; with `--images`, for so many, made of these as
`bench.many_images` says.
"""

import argparse
import json
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from os import getloadavg
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from tempfile import TemporaryDirectory

import cv2
import numpy as np

from bench.changed_copies import CHANGES
from bench.keypoints import compare_keypoints
from bench.many_images import make_images
from bench.pointing import interval
from cbir.api.index_folder import index_folder
from cbir.gallery.knn import find_neighbours
from cbir.store import Collection
from cbir.system.threads import cores
from service.features.audit.duplicates import REFERENCE, Duplicates, find_duplicates

SAME = 0.995  # correlation of all pixels: neighbouring slices in the composite collection reach 0.992

Copies = dict[str, list[str]]


@dataclass
class Outcome:
    """What was found of the copies.

    found: hits by change and strength. named: whether the change was named. false_pairs: sources of first and copy,
    and whether their images are the same by their keypoints. true_pairs: count. twice: lines of images that the
    source has twice. others: lines of two images without a copy. others_twice: these among them.
    """

    found: dict[tuple[str, str], list[bool]] = field(default_factory=lambda: defaultdict(list))
    named: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    false_pairs: list[tuple[str, str, bool]] = field(default_factory=list)
    true_pairs: int = 0
    twice: int = 0
    others: int = 0
    others_twice: int = 0


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collection", type=Path, help="images whose files are there, described")
    parser.add_argument("--copies", type=int, default=600)
    parser.add_argument("--part", choices=["tune", "report"], default="report")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--folder", type=Path, help="keep copies and their collection here, or use those here"
    )
    parser.add_argument(
        "--whole", action="store_true", help="measure the time for COLLECTION, without copies"
    )
    parser.add_argument("--images", type=int, help="with --whole: make so many images of those of COLLECTION")
    parser.add_argument("--false-pairs", type=Path, help="picture to draw the false pairs to")
    return parser.parse_args()


def write_copies(paths: list[Path], count: int, part: str, seed: int, folder: Path) -> Copies:
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
        copies[str(path)] = [str(own[index]), kind, strength]
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


def prepare(arguments: argparse.Namespace, folder: Path) -> Copies:
    """Make the copies and the collection in a folder; return the copies as `write_copies` does."""
    pictures, listed = folder / "copies", folder / "copies.json"
    if not listed.exists():
        pictures.mkdir(parents=True)
        with Collection(arguments.collection) as collection:
            paths = sorted(Path(record.source) for _, record in collection.iterate())
            copies = write_copies(paths, arguments.copies, arguments.part, arguments.seed, pictures)
            copy_neighbourhoods(collection, {image for image, _, _ in copies.values()}, folder / "collection")
        index_folder(pictures, folder / "collection")
        listed.write_text(json.dumps(copies), encoding="utf-8")
    return dict(json.loads(listed.read_text(encoding="utf-8")))


def is_same_picture(first: str, second: str) -> bool:
    """Return whether two files show the same pixels, perhaps flipped, inverted or with other contrast."""
    pictures = [cv2.imread(source, cv2.IMREAD_GRAYSCALE) for source in (first, second)]
    small, large = sorted(pictures, key=np.size)
    large = cv2.resize(large, small.shape[::-1], interpolation=cv2.INTER_AREA)
    flips = [large, large[::-1], large[:, ::-1], large[::-1, ::-1]]
    return any(abs(np.corrcoef(small.ravel(), flip.ravel())[0, 1]) >= SAME for flip in flips)


def judge(copies: Copies, indexed: set[str], duplicates: Duplicates) -> Outcome:
    """Compare the groups with what was copied."""
    outcome = Outcome()
    group_of, change_of = dict[str, int](), dict[str, str]()
    for number, group in enumerate(duplicates.groups):
        for member in group.members:
            group_of[member.source], change_of[member.source] = number, member.change
    origin = {source: image for source, (image, _, _) in copies.items()}
    for group in duplicates.groups:
        first = group.members[0].source
        for member in group.members[1:]:
            images = origin.get(first, first), origin.get(member.source, member.source)
            if first not in copies and member.source not in copies:
                outcome.others += 1
                outcome.others_twice += is_same_picture(*images)
            elif images[0] == images[1]:
                outcome.true_pairs += 1
            elif is_same_picture(*images):
                outcome.twice += 1
            else:
                outcome.false_pairs.append((first, member.source, compare_keypoints(*images).same))
    for source, (image, kind, strength) in copies.items():
        if source not in indexed:
            continue  # the very same picture: left out by the index
        hit = source in group_of and group_of[source] == group_of.get(image)
        outcome.found[kind, strength].append(hit)
        outcome.found[kind, "all"].append(hit)
        if hit and change_of[source] != REFERENCE:
            outcome.named[kind].append(kind in change_of[source].split("+"))
    return outcome


def draw_pairs(pairs: list[tuple[str, str, bool]], path: Path) -> None:
    """Draw false pairs side by side, four in a row, those first that keypoints find different too."""
    tiles = []
    for *pair, _ in sorted(pairs, key=lambda pair: pair[2])[:80]:
        pictures = [cv2.imread(source, cv2.IMREAD_GRAYSCALE) for source in pair]
        tiles.append(np.hstack([cv2.resize(picture, (128, 128)) for picture in pictures]))
    tiles += [np.zeros((128, 256), np.uint8)] * (-len(tiles) % 4)
    cv2.imwrite(str(path), np.vstack([np.hstack(tiles[row : row + 4]) for row in range(0, len(tiles), 4)]))


def line(hits: list[bool], digits: int = 3) -> str:
    """Return the share of hits and its interval as two cells."""
    low, high = interval(hits)
    return f"{np.mean(hits):.{digits}f} | {low:.{digits}f} to {high:.{digits}f}"


def print_outcome(outcome: Outcome) -> None:
    print("| change | strength | copies | found | 95 % interval | named |\n|---|---|---|---|---|---|")
    for (kind, strength), hits in sorted(outcome.found.items()):
        named = outcome.named[kind] if strength == "all" else []
        name = f"{np.mean(named):.2f}" if named else ""
        print(f"| {kind} | {strength} | {len(hits)} | {line(hits)} | {name} |")
    every = [hit for (_, strength), hits in outcome.found.items() if strength == "all" for hit in hits]
    print(f"| all | | {len(every)} | {line(every)} | |")
    false, true = [same for _, _, same in outcome.false_pairs], [True] * outcome.true_pairs
    print("\n| false lines | lines | false | right | 95 % interval |\n|---|---|---|---|---|")
    for name, right in (("of different images", [False] * len(false)), ("also by keypoints", false)):
        print(f"| {name} | {len(true + right)} | {right.count(False)} | {line(true + right, 4)} |")
    print(f"\nLines of images that the source has twice, counted apart: {outcome.twice}. "
          f"Lines of two images of the collection: {outcome.others}, such: {outcome.others_twice}.")  # fmt: skip


def processor_time() -> float:
    """Return the seconds of this process and of those that it started and that have ended."""
    usages = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def search(folder: Path) -> Duplicates:
    """Search a collection for duplicates; print what it took."""
    with Collection(folder) as collection:
        began, cpu = time.perf_counter(), processor_time()
        stages = Counter[str]()

        def show(stage: str, done: int, total: int) -> None:
            stages[stage] = round(time.perf_counter() - began)

        duplicates = find_duplicates(collection, (), show)
        cpu_seconds, seconds = processor_time() - cpu, time.perf_counter() - began
        count = len(collection.view().gallery)
    copies = sum(len(group.members) - 1 for group in duplicates.groups)
    own, of_processes = (getrusage(who).ru_maxrss / 2**20 for who in (RUSAGE_SELF, RUSAGE_CHILDREN))
    print(f"{count} images, {duplicates.pairs} compared pairs, {len(duplicates.groups)} groups, {copies} duplicates "
          f"in them: {cpu_seconds:.0f} seconds of processor time, {1000 * cpu_seconds / count:.1f} ms an image, "
          f"{seconds:.0f} s in all with a load of {getloadavg()[0]:.1f} on {cores()} cores, {own:.1f} GiB and "
          f"{of_processes:.1f} in each process; seconds at the end of each stage: {dict(stages)}\n")  # fmt: skip
    return duplicates


def search_many(arguments: argparse.Namespace, folder: Path) -> None:
    """Search as many images as asked for, made of those of the collection unless the folder has them."""
    if not (folder / "collection").exists():
        with Collection(arguments.collection) as collection:
            make_images(collection, arguments.images, folder, arguments.seed)
    search(folder / "collection")


def main() -> None:
    arguments = options()
    if arguments.whole and not arguments.images:
        search(arguments.collection)
        return
    with TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        if arguments.whole:
            search_many(arguments, folder)
            return
        copies = prepare(arguments, folder)
        duplicates = search(folder / "collection")
        with Collection(folder / "collection") as collection:
            indexed = {record.source for _, record in collection.iterate()}
        outcome = judge(copies, indexed, duplicates)
        print_outcome(outcome)
        if arguments.false_pairs and outcome.false_pairs:
            draw_pairs(outcome.false_pairs, arguments.false_pairs)


if __name__ == "__main__":
    main()
