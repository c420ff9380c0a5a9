"""Compare the default profile with smaller ones, and its directions with others, on sources and class sizes left out.

The values of `lite0` and `lite0-whole` are among those of `lite0-max`: one collection has all three. Sets are those
of `left_out_sources.py`. Sets of 1,000 images or more are measured with other directions too: principal ones; learned
ones whose scatter is damped less (`floor=1`); and the 128 principal directions of both together (`mixed`).

    OMP_NUM_THREADS=1 python bench/profile_choice.py COLLECTION --finer COLLECTION [--queries N] [--out FILE]
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
from left_out_sources import Quality, commit, quality_of
from numpy.typing import NDArray
from source_sets import Images, LabelledSet, labelled_sets, read

from cbir import rerank
from cbir.evaluation.agreement_count import LabelledRows, draw_queries
from cbir.gallery import knn
from cbir.gallery.gallery import Gallery
from cbir.gallery.knn import find_neighbours, learn_directions
from cbir.gallery.knn_graph import Neighbourhood
from cbir.gallery.vector_blocks import plain_space
from cbir.store.base.normalisation import LEAST_IMAGES
from cbir.system.threads import OneBlasThread

Floats = NDArray[np.float32]
MIDDLE, LAST = 1008, 2288  # where the values of the middle and of the last block end in `lite0-max`
MIDDLE_WEIGHT = 1.4  # of the middle block in `lite0-max`
KEPT, WIDE = 128, 512  # directions of a collection, and principal ones that they are learned in
MIXED = 0.3  # share of the principal directions
ENCODERS = ("lite0", "lite0-whole", "lite0-max")
BASE = "lite0-max"
SIZES = {"lite0": MIDDLE, "lite0-whole": LAST, "lite0-max": 2800}
HEAD = """\
# Smaller profiles and other directions

    OMP_NUM_THREADS=1 python bench/profile_choice.py COLLECTION --finer COLLECTION --queries {queries} --out FILE

Commit {commit}. Sets as in [left_out_sources.md](left_out_sources.md): each a collection of its own, whose directions
are learned from its images alone; of fewer than 1,000 images vectors are centred only. mAP by distance / P@1 / mAP by
`auto`; differences in points from `lite0-max`, mean and worst over sets. Values stored for an image: {sizes};
with 1,000 images or more searches compare 128 of each.
"""


def unit(values: Floats) -> Floats:
    """Scale vectors (n, d) to length 1."""
    lengths = np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
    return np.asarray(values / lengths, np.float32)


def principal(values: Floats, count: int) -> tuple[Floats, NDArray[np.float64]]:
    """Return the first principal components (n, c) of values (n, d), and their variances (c,)."""
    centred = values - values.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(left[:, :count] * singular[:count], np.float32), singular[:count] ** 2 / len(values)


def vectors_of(raw: Floats) -> Iterator[tuple[str, Floats]]:
    """Yield the vectors of each encoder, and in large sets of other directions, by their names."""
    values = {
        "lite0": raw[:, :MIDDLE],
        "lite0-whole": np.hstack([raw[:, :MIDDLE] / MIDDLE_WEIGHT, raw[:, MIDDLE:LAST]]),
        "lite0-max": raw,
    }
    for name in ENCODERS:
        if len(raw) < LEAST_IMAGES:
            yield name, unit(principal(values[name], len(raw))[0])
            continue
        components, variances = principal(values[name], WIDE)
        learned = unit(components @ learn_directions(components, variances, KEPT).astype(np.float32))
        yield name, learned
        if name == BASE:
            plain = unit(components[:, :KEPT])
            yield "principal directions", plain
            with patch.object(knn, "FLOOR", 1.0):
                yield (
                    "floor=1",
                    unit(components @ learn_directions(components, variances, KEPT).astype(np.float32)),
                )
            both = np.hstack([np.sqrt(MIXED) * plain, np.sqrt(1 - MIXED) * learned]).astype(np.float32)
            yield "mixed", unit(principal(both, KEPT)[0])


def measure(images: Images, part: LabelledSet, queries: int) -> dict[str, Quality]:
    """Return AP and P@1 (q, 2, 2) of `none` and `auto` by the name of the vectors."""
    classes = np.unique(part.classes, return_inverse=True)[1]
    names, codes = np.unique(images.patient[part.rows], return_inverse=True)
    unknown = part.same_patient | (names[codes] == "")
    labelled = LabelledRows(np.arange(len(classes)), classes, np.where(unknown, -1, codes))
    usable = [bool((classes[labelled.others(row)] == classes[row]).any()) for row in range(len(classes))]
    drawn = draw_queries(labelled, np.array(usable), queries).tolist()
    choice = rerank.default_choice(BASE)
    methods = [rerank.get("none"), rerank.get(choice.method, **choice.parameters)]
    quality = {}
    for name, vectors in vectors_of(images.raw[part.rows]):
        graph = Neighbourhood(find_neighbours(vectors, plain_space(vectors.shape[1])))
        gallery = Gallery((vectors,), np.arange(len(vectors)), (), graph, True)
        scored = [quality_of(gallery, row, labelled.others(row), classes, methods) for row in drawn]
        quality[name] = np.array(scored)
    return quality


def report(measured: dict[str, dict[str, Quality]]) -> Iterator[str]:
    """Yield the lines of the tables: each set, and the differences from `lite0-max`."""
    yield f"| set | {' | '.join(f'`{name}`' for name in ENCODERS)} |\n|{' --- |' * (len(ENCODERS) + 1)}"
    for part, quality in measured.items():
        means = [100 * quality[name].mean(axis=0) for name in ENCODERS]
        yield f"| {part} | {' | '.join(f'{m[0, 0]:.1f} / {m[0, 1]:.1f} / {m[1, 0]:.1f}' for m in means)} |"
    yield (
        "\n| in place of `lite0-max` | sets | mAP, mean | worst | P@1, mean | worst | `auto`, mean | worst |\n|"
        + " --- |" * 8
    )
    for name in dict.fromkeys(name for quality in measured.values() for name in quality):
        parts = [part for part in measured if name in measured[part] and name != BASE]
        if not parts:
            continue
        gains = np.array([100 * (measured[part][name] - measured[part][BASE]).mean(axis=0) for part in parts])
        columns = (gains[:, 0, 0], gains[:, 0, 1], gains[:, 1, 0])
        cells = [f"{c.mean():+.2f} | {c.min():+.2f} ({parts[int(c.argmin())]})" for c in columns]
        yield f"| {name} | {len(parts)} | {' | '.join(cells)} |"


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("collection", type=Path, help="with lite0-max")
    options.add_argument("--finer", type=Path, required=True, help="the same images with huang2012")
    options.add_argument("--queries", type=int, default=200, help="of each set")
    options.add_argument("--out", type=Path, help="Markdown file of the tables")
    values = options.parse_args()
    sizes = ", ".join(f"{count:,} (`{name}`)" for name, count in SIZES.items())
    head = HEAD.format(queries=values.queries, commit=commit(), sizes=sizes)
    with OneBlasThread():
        images, _ = read(values.collection, values.finer)
        measured: dict[str, dict[str, Quality]] = {}
        for part in labelled_sets(images, 0):
            measured[part.name] = measure(images, part, values.queries)
            print(part.name, time.strftime("%X"), flush=True)
            text = "\n".join([head, *report(measured), ""])
            if values.out:
                values.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
