"""Measure the default and EPRF on parts of a collection that they were not tuned on, by source and by class size.

Each set is a collection of its own: its directions are learned from its images alone. Sets are the images of one
source by label, or by label and group of like pictures (`fine`, a few images each, sizes with a long tail), images of
one patient as a class, and all sources with 3, 5, 10, 20 and 50 images a class. Images of the query's patient are
left out, unless patients are the classes.

The weights of the default are chosen on the sets of all sources but one, and reported on the sets of that one, in
turn: those whose worst gain is best.

    OMP_NUM_THREADS=1 python bench/left_out_sources.py COLLECTION --finer COLLECTION [--queries 50] [--json FILE]

Both have the same images, with the labels `label`, `source` and where known `grade`; that of --finer, of `huang2012`,
tells like pictures.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from cbir import rerank
from cbir.evaluation.labelled_rows import LabelledRows, draw_queries, score_query
from cbir.gallery.gallery import Gallery
from cbir.gallery.knn import find_neighbours
from cbir.gallery.knn_graph import Neighbourhood
from cbir.gallery.vector_blocks import fit_space, plain_space
from cbir.rerank.reranker import Reranker
from cbir.store import Collection
from cbir.store.base import normalisation
from cbir.store.base.profile import Profile, settings_of_new
from cbir.system.threads import OneBlasThread

SMALL = (3, 5, 10, 20, 50)  # images of a class
MOST, LEAST = 1500, 3  # images of a source; images of a patient that are a class
GROUP = 12  # images of a label for each group of like pictures, about
OLD_EPRF = {
    "K": 80, "N": 120, "P": 12, "T1": 3, "T2": 10, "lowest": 0.95, "sharpness": 3.5, "closeness": 0.6, "sure": 0.96,
}  # fmt: skip
CHOICES = ("auto", "without SVMs", "without evidence", "weight=1", "weight=6")  # of a setting of the default
OLD_AUTO = {"damping": 0.97, "tail": 1.0, "mutual": 4.0}
Quality = NDArray[np.float64]  # mAP and P@1, a row for each method


class Images(NamedTuple):
    """Raw vectors (n, d), coordinates (n, c) that tell like pictures, and texts (n,), empty where unknown."""

    raw: NDArray[np.float32]
    like: NDArray[np.float32]
    label: NDArray[Any]
    source: NDArray[Any]
    grade: NDArray[Any]
    patient: NDArray[Any]


class LabelledSet(NamedTuple):
    """Images at `rows` (m,) with their classes (m,); whether images of the query's patient may be found."""

    name: str
    source: str
    rows: NDArray[np.int64]
    classes: NDArray[Any]
    same_patient: bool = False


def read(folder: Path, finer: Path) -> tuple[Images, Profile]:
    """Read the images of a collection, and by their content the vectors of another one."""
    with Collection(folder) as collection, Collection(finer) as other:
        contents = collection.content_hashes()
        numbers = np.array(sorted(contents), np.int64)
        by_content = {content: number for number, content in other.content_hashes().items()}
        same = np.array([by_content[contents[number]] for number in numbers.tolist()], np.int64)
        like = other.raw_vectors(same)
        columns = [collection.labels_by_number(key) for key in ("label", "source", "grade")]
        columns.append(collection.patient_keys())
        values = (np.array([column.get(number) or "" for number in numbers.tolist()]) for column in columns)
        like = (like - like.mean(axis=0)) / np.maximum(like.std(axis=0), 1e-6)
        return Images(collection.raw_vectors(numbers), like.astype(np.float32), *values), collection.profile


def labelled_sets(images: Images, seed: int) -> Iterator[LabelledSet]:
    """Yield the sets."""
    random = np.random.default_rng(seed)
    rows = np.arange(len(images.label))
    for source in sorted(set(images.source.tolist())):
        own = np.sort(random.permutation(rows[images.source == source])[:MOST])
        yield LabelledSet(f"{source}, label", source, own, images.label[own])
        if (images.grade[own] != "").mean() > 0.5:
            yield LabelledSet(f"{source}, grade", source, own, images.grade[own])
        yield finer_set(images, source, own, random)
        names, counts = np.unique(images.patient[own], return_counts=True)
        several = own[np.isin(images.patient[own], names[(counts >= LEAST) & (names != "")])]
        if len(several) > 100:
            yield LabelledSet(f"{source}, patient", source, several, images.patient[several], True)
    for count in SMALL:
        classes = [rows[images.label == label] for label in np.unique(images.label)]
        drawn = np.sort(np.concatenate([random.permutation(members)[:count] for members in classes]))
        yield LabelledSet(f"all, {count} a class", "all", drawn, images.label[drawn])
    yield finer_set(images, "all", np.sort(random.permutation(rows)[:MOST]), random)


def finer_set(
    images: Images, source: str, rows: NDArray[np.int64], random: np.random.Generator
) -> LabelledSet:
    """Return images of groups of like pictures of a label, few of most groups, and many of some."""
    chosen, names = list[int](), list[str]()
    for label in np.unique(images.label[rows]):
        members = rows[images.label[rows] == label]
        clusters = KMeans(max(1, len(members) // GROUP), n_init=1, random_state=0)
        groups = clusters.fit_predict(images.like[members])
        for group in np.unique(groups):
            size = int(np.clip(2 + 3 * random.pareto(0.9), 2, 120))
            kept = random.permutation(members[groups == group])[:size]
            chosen += kept.tolist()
            names += [f"{label} {group}"] * len(kept)
    order = np.argsort(chosen, kind="stable")
    return LabelledSet(f"{source}, fine", source, np.array(chosen)[order], np.array(names)[order])


def gallery_of(raw: NDArray[np.float32], profile: Profile) -> Gallery:
    """Return the gallery that a collection of these images has."""
    statistics = normalisation.fit_statistics(raw, profile)
    vectors = statistics.normalise(raw)
    parts = normalisation.part_bounds(profile, statistics)
    space = plain_space(vectors.shape[1]) if profile.is_projected else fit_space(vectors, parts)
    graph = Neighbourhood(find_neighbours(vectors, space))
    return Gallery((vectors,), np.arange(len(raw)), parts, graph, profile.is_projected)


def methods(profile: Profile) -> Mapping[str, Reranker]:
    """Return the methods by their names in the tables."""
    sure = {"sure": 0.85 if profile.descriptor == "huang2012" else 1.0}
    named = {
        "none": rerank.get("none"),
        "auto before": rerank.get("diffusion", **OLD_AUTO, **sure),
        "auto": rerank.get("diffusion-eprf", **sure),
        "without the update": rerank.get("diffusion-eprf", lam=0, **sure),
        "without SVMs": rerank.get("diffusion-eprf", weight=0, **sure),
        "without evidence": rerank.get("diffusion-eprf", evidence=0, **sure),
        "eprf:preset=paper": rerank.get("eprf", preset="paper"),
        "eprf before": rerank.get("eprf", **(OLD_EPRF if profile.is_projected else {})),
        "eprf": rerank.get_tuned("eprf", settings_of_new(profile), {}),
    }
    for weight in (1.0, 6.0):
        named[f"weight={weight:g}"] = rerank.get("diffusion-eprf", weight=weight, **sure)
    return named


def measure(
    images: Images, profile: Profile, part: LabelledSet, queries: int, rerankers: Mapping[str, Reranker]
) -> tuple[Quality, NDArray[np.float64]]:
    """Return mAP and P@1 (methods, 2), and milliseconds of processor time (methods,)."""
    classes = np.unique(part.classes, return_inverse=True)[1]
    if part.same_patient:
        patients = np.full(len(classes), -1)
    else:
        names, patients = np.unique(images.patient[part.rows], return_inverse=True)
        patients = np.where(names[patients] == "", -1, patients)
    labelled = LabelledRows(np.arange(len(classes)), classes, patients)
    gallery = gallery_of(images.raw[part.rows], profile)
    drawn, spent = draw_queries(labelled, labelled.can_query, queries), np.zeros(len(rerankers))
    scored = defaultdict[int, list[Quality]](list)
    for index in drawn.tolist():
        for number, reranker in enumerate(rerankers.values()):
            started = time.process_time()
            quality = score_query(gallery, labelled, index, [reranker])
            spent[number] += time.process_time() - started
            if quality is not None:
                scored[number].append(quality[0])
    means = np.array([np.mean(scored[number], axis=0) for number in range(len(rerankers))])
    return means, 1000 * spent / max(len(drawn), 1)


def line(name: str, quality: Quality, names: list[str]) -> str:
    """Return a row of the first table."""
    cells = [f"{100 * quality[i, 0]:.1f} / {100 * quality[i, 1]:.1f}" for i in range(len(names))]
    return f"| {' | '.join([name, *cells])} |"


def summary(results: Mapping[str, Quality], names: list[str], base: str) -> list[str]:
    """Return rows of mean and worst gains of each method over `base`, in points."""
    table = np.stack(list(results.values()))  # (sets, methods, 2)
    gains = 100 * (table - table[:, [names.index(base)]])
    sets, rows = list(results), []
    for number, name in enumerate(names):
        worst = gains[:, number].argmin(axis=0)
        mean = gains[:, number].mean(axis=0)
        cells = [f"{mean[i]:+.2f} | {gains[worst[i], number, i]:+.2f} ({sets[worst[i]]})" for i in range(2)]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return rows


def left_out(results: Mapping[str, Quality], sources: Mapping[str, str], names: list[str]) -> list[str]:
    """Return rows: for each source the setting that the others choose, and its mean and worst gain there."""
    before, choices, rows = names.index("auto before"), [names.index(name) for name in CHOICES], []
    gains = {name: 100 * (quality[choices, 0] - quality[before, 0]) for name, quality in results.items()}
    for source in sorted(set(sources.values()) - {"all"}):
        others = np.stack([gains[name] for name in results if sources[name] != source])
        best = int(np.argmax(others.min(axis=0)))
        own = {name: gains[name][best] for name in results if sources[name] == source}
        worst = min(own, key=lambda name: own[name])
        mean = float(np.mean(list(own.values())))
        rows.append(f"| {source} | {CHOICES[best]} | {mean:+.2f} | {own[worst]:+.2f} ({worst}) |")
    return rows


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("collection", type=Path)
    options.add_argument("--finer", type=Path, required=True, help="the same images with huang2012")
    options.add_argument("--queries", type=int, default=50, help="of each set, drawn evenly from its classes")
    options.add_argument("--seed", type=int, default=0, help="of the images that are drawn")
    options.add_argument("--json", type=Path, help="file of all figures")
    values = options.parse_args()
    images, profile = read(values.collection, values.finer)
    rerankers = methods(profile)
    names, results, sources, spent = list(rerankers), dict[str, Quality](), dict[str, str](), []
    print(f"| set | {' | '.join(names)} |\n|{' --- |' * (len(names) + 1)}")
    with OneBlasThread():
        for part in labelled_sets(images, values.seed):
            results[part.name], milliseconds = measure(images, profile, part, values.queries, rerankers)
            sources[part.name] = part.source
            spent.append(milliseconds)
            print(line(part.name, results[part.name], names), flush=True)
            if values.json:
                values.json.write_text(json.dumps({name: q.tolist() for name, q in results.items()}))
    for base in ("auto before", "none"):
        print(f"\n| over {base} | mAP, mean | worst | P@1, mean | worst |\n|{' --- |' * 5}")
        print(*summary(results, names, base), sep="\n")
    print(f"\n| left out | chosen on the others | mAP over auto before, mean | worst |\n|{' --- |' * 4}")
    print(*left_out(results, sources, names), sep="\n")
    means = np.mean(spent, axis=0)
    print("\nms:", ", ".join(f"{name} {means[i]:.1f}" for i, name in enumerate(names)))


if __name__ == "__main__":
    main()
