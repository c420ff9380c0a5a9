"""Outliers among images of a collection, foreign files, and images of a class that the collection lacks.

    python bench/likeness.py COLLECTION [--foreign FOLDER] [--by anatomy] [--sample 1000]

The same value of a label is left out of a copy of the collection in turn, and images that have it are searched with.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import cbir
from cbir.api.collection_search import OpenCollection
from cbir.errors import CbirError
from cbir.search import Answer, Request, Searcher, Stopwatch
from cbir.settings import Settings
from cbir.store import Collection, Record

BATCH = 2000  # images copied at a time
LEAST = 20  # images with a value, to be left out

Drawn = NDArray[np.int64]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collection", type=Path)
    parser.add_argument("--foreign", type=Path, help="folder of images unlike the collection")
    parser.add_argument("--by", default="anatomy", help="label whose values are left out; '' for none")
    parser.add_argument("--sample", type=int, default=1000, help="images searched with, at most")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def outliers(answers: Sequence[Answer]) -> float:
    return float(np.mean([answer.query.outlier for answer in answers]))


def search_own(opened: OpenCollection, ids: Sequence[str]) -> list[Answer]:
    return [opened.search(image_id, k=1, rerank="none") for image_id in ids]


def search_files(opened: OpenCollection, folder: Path) -> list[Answer]:
    answers: list[Answer] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            answers.append(opened.search(path, k=1, rerank="none"))
        except CbirError as error:
            print(f"{path.name}: {error}", file=sys.stderr)
    return answers


def search_left_out(
    collection: Collection, records: Sequence[Record], left_out: Drawn, drawn: Drawn, folder: Path
) -> list[Answer]:
    """Search with some of the images left out, in a collection of the others."""
    numbers = {image_id: number for number, image_id in collection.image_ids().items()}
    kept = np.setdiff1d(np.arange(len(records)), left_out)
    with Collection.create(folder, collection.profile) as copy:
        with copy.writer() as writer:
            for start in range(0, len(kept), BATCH):
                part = [records[index] for index in kept[start : start + BATCH]]
                raw = collection.raw_vectors(np.array([numbers[record.image_id] for record in part]))
                writer.add(list(zip(part, raw, strict=True)))
            writer.finish()
        searcher = Searcher(copy, Settings())
        raw = collection.raw_vectors(np.array([numbers[records[index].image_id] for index in drawn]))
        return [searcher.by_examples([], Request(k=1, rerank="none"), Stopwatch(), vectors=v) for v in raw]


def main() -> None:
    arguments = options()
    random = np.random.default_rng(arguments.seed)
    shares: dict[str, float] = {}
    with cbir.open(arguments.collection) as opened, tempfile.TemporaryDirectory() as scratch:
        collection = opened.collection
        records = [record for _, record in collection.iterate()]
        sample = random.permutation(len(records))[: arguments.sample]
        answers = search_own(opened, [records[index].image_id for index in sample])
        shares["own images"] = outliers(answers)
        print("| images | searched with | outliers |\n|---|---|---|")
        print(f"| of the collection | {len(answers)} | {outliers(answers):.1%} |")
        if arguments.foreign:
            answers = search_files(opened, arguments.foreign)
            shares["foreign files"] = outliers(answers)
            print(f"| files of {arguments.foreign.name} | {len(answers)} | {outliers(answers):.1%} |")
        values = np.array([record.labels.get(arguments.by, "") for record in records])
        for value in sorted({*values.tolist()} - {""}) if arguments.by else []:
            left_out = np.flatnonzero(values == value)
            if len(left_out) >= LEAST:
                drawn = random.permutation(left_out)[: min(300, arguments.sample)]
                answers = search_left_out(collection, records, left_out, drawn, Path(scratch) / value)
                shares[value] = outliers(answers)
                print(
                    f"| {arguments.by} {value}, left out of it | {len(answers)} | {outliers(answers):.1%} |",
                    flush=True,
                )
    print(json.dumps(shares))


if __name__ == "__main__":
    main()
