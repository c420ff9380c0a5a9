"""Whether answers that agree on a label are as often right as is stated, for images that are not in the index.

    cbir index $CBIR_DATA/composite --labels $CBIR_DATA/composite/manifest.csv --collection DIR
    python -m bench.agreement DIR [--label label] [--share 0.3 | --even 104 [--like-index]]
        [--searches 1500] [--group-by patient]

A part of the collection is copied, patients as a whole: a share of them, or the same number of images of each value
of the label. The copy counts its evidence as `cbir index` does; then images of the other patients are searched with.

stated: mean of the shares and of the ends of their intervals that the answers stated. right: how many of these
searches found the value of their own image. A value holds if that is within the interval; values with fewer than 20
such searches are left out.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from math import ceil, floor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.auto_choice import update_choice
from cbir.search import Request, Searcher, Stopwatch
from cbir.search.answer import LabelAgreement
from cbir.settings import Settings
from cbir.store import Collection, Record

BATCH = 1000  # images copied at a time
LEAST = 20  # searches of a value


class Stated(NamedTuple):
    """What an answer stated on a label, and whether its value is that of the query."""

    agreement: LabelAgreement
    right: bool


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collection", type=Path)
    parser.add_argument("--label", default="label")
    parser.add_argument("--share", type=float, default=0.3, help="of the patients that are copied")
    parser.add_argument("--even", type=int, help="images of each value that are copied, at most half of them")
    parser.add_argument("--searches", type=int, default=1500, help="images searched with, at most")
    parser.add_argument(
        "--like-index", action="store_true", help="search with the values in the shares that the index has"
    )
    parser.add_argument("--group-by", choices=["patient"], help="one answer of each patient")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def chosen(
    patients: NDArray[np.str_], values: NDArray[np.str_], arguments: argparse.Namespace
) -> NDArray[np.bool_]:
    """Return which images are copied."""
    random = np.random.default_rng(arguments.seed)
    if arguments.even is None:
        drawn = [each for each in np.unique(patients) if random.random() < arguments.share]
        return np.isin(patients, drawn)
    taken: set[str] = set()
    for value in np.unique(values):
        members = np.flatnonzero(values == value)
        count, most = 0, min(arguments.even, len(members) // 2)
        for patient in random.permutation(np.unique(patients[members])):
            if count >= most:
                break
            taken.add(str(patient))
            count += int(np.count_nonzero(patients[members] == patient))
    return np.isin(patients, sorted(taken))


def like_index(
    drawn: NDArray[np.int64], inside: NDArray[np.bool_], records: list[Record], label: str
) -> NDArray[np.int64]:
    """Return the largest part of drawn images, in their order, whose values are as frequent as in the index."""
    values = np.array([record.labels.get(label, "") for record in records])
    shares = {value: np.mean(values[inside] == value) for value in np.unique(values[inside])}
    most = min(np.count_nonzero(values[drawn] == value) / share for value, share in shares.items())
    left = {value: round(most * share) for value, share in shares.items()}
    kept = list[int]()
    for index in drawn.tolist():
        if left.get(values[index], 0) > 0:
            left[values[index]] -= 1
            kept.append(index)
    return np.array(kept, np.int64)


def search(
    source: Collection,
    records: list[tuple[int, Record]],
    inside: NDArray[np.bool_],
    folder: Path,
    arguments: argparse.Namespace,
) -> list[Stated]:
    """Copy the images that are inside, and search with others."""
    with Collection.create(folder, source.profile) as copy:
        with copy.writer() as writer:
            kept = [records[index] for index in np.flatnonzero(inside)]
            for start in range(0, len(kept), BATCH):
                part = kept[start : start + BATCH]
                raw = source.raw_vectors(np.array([number for number, _ in part]))
                writer.add([(record, vector) for (_, record), vector in zip(part, raw, strict=True)])
            writer.finish()
            update_choice(copy, writer)
        searcher, stated = Searcher(copy, Settings()), list[Stated]()
        random = np.random.default_rng(arguments.seed)
        request = Request(k=10, group_by=arguments.group_by)
        drawn = random.permutation(np.flatnonzero(~inside))
        if arguments.like_index:
            drawn = like_index(drawn, inside, [record for _, record in records], arguments.label)
        for index in drawn[: arguments.searches]:
            number, record = records[index]
            vector = source.raw_vectors(np.array([number]))
            answer = searcher.by_examples([], request, Stopwatch(), vectors=vector)
            own = record.labels.get(arguments.label)
            stated += [
                Stated(each, each.value == own)
                for each in answer.agreement
                if each.key == arguments.label and own is not None
            ]
        return stated


def mean(values: Iterable[float | None]) -> float:
    return float(np.mean([value for value in values if value is not None]))


def main() -> None:
    arguments = options()
    with Collection(arguments.collection) as source, tempfile.TemporaryDirectory() as scratch:
        records = list(source.iterate())
        patients = np.array([record.patient_key or record.image_id for _, record in records])
        values = np.array([record.labels.get(arguments.label, "") for _, record in records])
        inside = chosen(patients, values, arguments)
        stated = search(source, records, inside, Path(scratch) / "copy", arguments)
    of_value: dict[tuple[str, str], list[Stated]] = defaultdict(list)
    for each in stated:
        of_value[each.agreement.value, each.agreement.counted].append(each)
    print(f"{np.count_nonzero(inside)} images in the index, {len(stated)} searches\n")
    print(
        "| value | counted by | searches | stated | interval | right | holds |\n|---|---|---|---|---|---|---|"
    )
    holds = list[bool]()
    for (value, counted), group in sorted(of_value.items()):
        if not counted or len(group) < LEAST:
            continue
        ends = ("right", "low", "high")
        share, low, high = (mean(getattr(each.agreement, name) for each in group) for name in ends)
        right = mean(each.right for each in group)
        holds.append(floor(low * 100) / 100 <= right <= ceil(high * 100) / 100)
        print(
            f"| {value} | {counted} | {len(group)} | {share:.0%} | {floor(low * 100)} to {ceil(high * 100)} % "
            f"| {right:.0%} | {'yes' if holds[-1] else '**no**'} |"
        )
    silent = sum(not each.agreement.counted for each in stated)
    print(
        f"\n{sum(holds)} of {len(holds)} values hold; {silent / len(stated):.1%} of the searches state nothing."
    )
    print(json.dumps({"holds": sum(holds), "values": len(holds), "silent": silent, "searches": len(stated)}))


if __name__ == "__main__":
    main()
