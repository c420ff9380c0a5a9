"""Parts of a collection by source and by class size, each a collection of its own, for `left_out_sources.py`.

Sets are the images of one source by label, by grade, by label and group of like pictures (`fine`: a few images each,
sizes with a long tail), and images of one patient as a class; and of all sources 3, 5, 10, 20 and 50 images a class.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from cbir.gallery.gallery import Gallery
from cbir.gallery.knn import find_neighbours
from cbir.gallery.knn_graph import Neighbourhood
from cbir.gallery.vector_blocks import fit_space, plain_space
from cbir.store import Collection
from cbir.store.base import normalisation
from cbir.store.base.profile import Profile

SMALL = (3, 5, 10, 20, 50)  # images of a class
MOST, LEAST = 1500, 3  # images of a source; images of a patient that are a class
LEAST_IN_PATIENTS = 100  # images of a set by patient
GROUP = 12  # images of a label for each group of like pictures, about


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
    for count in SMALL:
        classes = [rows[images.label == label] for label in np.unique(images.label)]
        drawn = np.sort(np.concatenate([random.permutation(members)[:count] for members in classes]))
        yield LabelledSet(f"all, {count} a class", "all", drawn, images.label[drawn])
    yield finer_set(images, "all", np.sort(random.permutation(rows)[:MOST]), random)
    for source in sorted(set(images.source.tolist())):
        own = np.sort(random.permutation(rows[images.source == source])[:MOST])
        yield LabelledSet(f"{source}, label", source, own, images.label[own])
        if (images.grade[own] != "").mean() > 0.5:
            yield LabelledSet(f"{source}, grade", source, own, images.grade[own])
        yield finer_set(images, source, own, random)
        names, counts = np.unique(images.patient[own], return_counts=True)
        several = own[np.isin(images.patient[own], names[(counts >= LEAST) & (names != "")])]
        if len(several) > LEAST_IN_PATIENTS:
            yield LabelledSet(f"{source}, patient", source, several, images.patient[several], True)


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
    """Return the gallery that a collection of these images has; vectors longer than n are turned to n values."""
    statistics = normalisation.fit_statistics(raw, profile)
    vectors = statistics.normalise(raw)
    if (
        profile.is_projected and len(vectors) < vectors.shape[1]
    ):  # distances stay, and take a tenth of the time
        vectors = np.ascontiguousarray(np.linalg.qr(vectors.T.astype(np.float64))[1].T, np.float32)
    parts = () if profile.is_projected else normalisation.part_bounds(profile, statistics)
    space = plain_space(vectors.shape[1]) if profile.is_projected else fit_space(vectors, parts)
    graph = Neighbourhood(find_neighbours(vectors, space))
    return Gallery((vectors,), np.arange(len(raw)), parts, graph, profile.is_projected)
