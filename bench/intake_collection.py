"""Findings of the intake check that come from the collection: inverted, of another modality, unlike it.

    python -m bench.intake_collection COLLECTION [--sample 1300] [--by anatomy] [--class label] [--foreign FOLDER]

Drawn images come to a collection of the others: as they are, as negatives, and with a wrong modality. Then the
collection lacks one value of the label `--by` in turn, whose images come to it. Image files have to be where they
were.
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from statsmodels.stats.proportion import proportion_confint

from cbir.gallery.vector_blocks import Floats
from cbir.images import read_images
from cbir.ingest.collection_check import CollectionCheck
from cbir.ingest.pixel_checks import findings_of
from cbir.store import Collection, Record
from cbir.store.base.profile import Profile
from cbir.store.records.records import Entry

BATCH = 2000  # images copied at a time
LEAST = 20  # images with a value, to be left out


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collection", type=Path)
    parser.add_argument("--sample", type=int, default=1300, help="images that come to the collection")
    parser.add_argument("--by", default="anatomy", help="label whose values are left out; '' for none")
    parser.add_argument("--class", dest="class_label", default="label", help="label to list shares by")
    parser.add_argument("--foreign", type=Path, help="folder of files unlike the collection")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


class Negatives:
    """Describes image files and their negatives. seconds: processor time for a negative, in all."""

    def __init__(self, profile: Profile) -> None:
        self._descriptor = profile.load_descriptor("cpu")
        self.seconds = 0.0

    def __call__(self, path: Path) -> tuple[Floats, Floats]:
        """Return the vectors of an image and of its negative."""
        image = next(iter(read_images(path)))
        own = self._descriptor(image)
        started = time.process_time()
        negative = self._descriptor(replace(image, pixels=255 - image.pixels))
        self.seconds += time.process_time() - started
        return own, negative


class NewImages:
    """Images that come to a collection: entries and vectors of their negatives."""

    def __init__(self, entries: Sequence[Entry], negatives: Sequence[Floats]) -> None:
        self.entries, self.negatives = list(entries), list(negatives)

    def findings(self, check: CollectionCheck) -> list[list[str]]:
        """Return what the check says of each."""
        return [findings_of(record) for record, _ in check.check(self.entries, self.negatives)]

    def inverted(self) -> "NewImages":
        """Return the negatives, of which these are the negatives."""
        swapped = [(record, own) for (record, _), own in zip(self.entries, self.negatives, strict=True)]
        return NewImages(swapped, [vector for _, vector in self.entries])

    def misdeclared(self, random: np.random.Generator) -> "NewImages":
        """Return the images with the modality of others."""
        modalities = sorted({record.labels["modality"] for record, _ in self.entries})
        wrong = [
            (
                _with_modality(
                    record, random.choice([m for m in modalities if m != record.labels["modality"]])
                ),
                v,
            )
            for record, v in self.entries
        ]
        return NewImages(wrong, self.negatives)


def _with_modality(record: Record, modality: str) -> Record:
    return replace(record, labels=record.labels | {"modality": str(modality)})


def print_share(what: str, hits: int, count: int) -> None:
    low, high = proportion_confint(hits, count, method="beta")
    print(f"| {what} | {hits} of {count} | {hits / count:.4f} | {low:.4f} to {high:.4f} |", flush=True)


def write_rest(collection: Collection, numbers: Sequence[int], folder: Path) -> Collection:
    """Write a collection of some of the images of another."""
    copy = Collection.create(folder, collection.profile)
    with copy.writer() as writer:
        for start in range(0, len(numbers), BATCH):
            part = np.asarray(numbers[start : start + BATCH])
            records = collection.records(part.tolist())
            raw = collection.raw_vectors(part)
            writer.add([(records[number], vector) for number, vector in zip(part.tolist(), raw, strict=True)])
        writer.finish()
    return copy


def print_by_class(drawn: NewImages, inverted: Sequence[list[str]], label: str) -> None:
    values = [record.labels.get(label, "") for record, _ in drawn.entries]
    totals = Counter(values)
    hits = Counter(value for value, words in zip(values, inverted, strict=True) if "inverted" in words)
    print("negatives, by class: " + ", ".join(f"{v} {hits[v]}/{totals[v]}" for v in sorted(totals)))


def measure_drawn(drawn: NewImages, check: CollectionCheck, args: argparse.Namespace) -> None:
    count = len(drawn.entries)
    started = time.process_time()
    plain = drawn.findings(check)
    spent = time.process_time() - started
    negatives = drawn.inverted().findings(check)
    wrong = drawn.misdeclared(np.random.default_rng(args.seed)).findings(check)
    print_share("negatives that are `inverted`", sum("inverted" in words for words in negatives), count)
    print_share("wrong modalities that are `modality`", sum("modality" in words for words in wrong), count)
    for word in ("inverted", "modality", "unlike"):
        print_share(f"images as they are that are `{word}`", sum(word in words for words in plain), count)
    print(f"comparison: {spent / count * 1000:.1f} ms of processor time an image")
    print_by_class(drawn, negatives, args.class_label)


def main() -> None:
    args = options()
    random = np.random.default_rng(args.seed)
    with Collection(args.collection) as collection, tempfile.TemporaryDirectory() as scratch:
        numbers = collection.matching_numbers(())
        records = collection.records(numbers.tolist())
        describe = Negatives(collection.profile)
        chosen = np.sort(random.permutation(numbers)[: args.sample]).tolist()
        described = [describe(Path(records[number].source)) for number in chosen]
        drawn = NewImages(
            [(records[number], own) for number, (own, _) in zip(chosen, described, strict=True)],
            [negative for _, negative in described],
        )
        print("| images | found | share | 95 % interval |\n|---|---|---|---|")
        rest = [number for number in numbers.tolist() if number not in set(chosen)]
        with write_rest(collection, rest, Path(scratch) / "rest") as others:
            check = CollectionCheck(others)
            measure_drawn(drawn, check, args)
            print(f"negative: {describe.seconds / len(chosen) * 1000:.1f} ms of processor time an image")
            if args.foreign:
                both = [describe(path) for path in sorted(args.foreign.iterdir()) if path.is_file()]
                blank = records[chosen[0]]
                foreign = NewImages(
                    [(replace(blank, labels={}), own) for own, _ in both], [n for _, n in both]
                )
                words = foreign.findings(check)
                print_share(
                    f"files of {args.foreign.name} that are `unlike`",
                    sum("unlike" in w for w in words),
                    len(words),
                )
                print_share(
                    f"files of {args.foreign.name} that are `inverted`",
                    sum("inverted" in w for w in words),
                    len(words),
                )
        values = (
            {number: records[number].labels.get(args.by, "") for number in numbers.tolist()}
            if args.by
            else {}
        )
        for value in sorted({*values.values()} - {""}):
            left_out = [index for index, number in enumerate(chosen) if values[number] == value]
            if len(left_out) < LEAST:
                continue
            kept = [number for number, own in values.items() if own != value]
            part = NewImages([drawn.entries[i] for i in left_out], [drawn.negatives[i] for i in left_out])
            with write_rest(collection, kept, Path(scratch) / value) as others:
                words = part.findings(CollectionCheck(others))
            for word in ("unlike", "inverted"):
                print_share(
                    f"{value}, which the collection lacks: `{word}`",
                    sum(word in w for w in words),
                    len(words),
                )


if __name__ == "__main__":
    main()
