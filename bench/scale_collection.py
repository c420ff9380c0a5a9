"""Large collections of drawn vectors for benchmarks, written to SQLite without the checks of adding images."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from cbir.gallery.vector_blocks import Floats
from cbir.store import Collection
from cbir.store.base import metadata
from cbir.store.base.damage import start_totals, stop_totals
from cbir.store.base.normalisation import MOST_IMAGES, Projection
from cbir.store.base.profile import Profile
from cbir.store.base.schema import connect
from cbir.store.base.statements import values_checksum, vector_checksum
from cbir.store.records.label_changes import record_change

MEMBERS = 20  # vectors of a component, on average
DIRECTIONS = 16  # principal directions of a component, at most
DRAWN = 100_000  # vectors drawn at a time
NEIGHBOURS = 100  # that distances and dimensions are compared by
CHECKED = 2000  # vectors whose neighbours are looked up
QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, eq=False)
class Mixture:
    """Normal distributions, each wide in a few directions of its own and narrow in all others.

    weights: (c,). centres: (c, d). axes: (c, r, d), each direction times its standard deviation. rest: (c,) standard
    deviation in every other direction.
    """

    weights: NDArray[np.float64]
    centres: Floats
    axes: Floats
    rest: Floats

    def draw(self, count: int, random: np.random.Generator) -> Floats:
        """Draw vectors (count, d)."""
        drawn = np.empty((count, self.centres.shape[1]), np.float32)
        for start in range(0, count, DRAWN):
            part = drawn[start : start + DRAWN]
            component = np.sort(random.choice(len(self.weights), len(part), p=self.weights))
            part[:] = random.standard_normal(part.shape, np.float32) * self.rest[component, None]
            begins = np.searchsorted(component, np.arange(len(self.weights) + 1))
            for number, (begin, end) in enumerate(pairwise(begins)):
                along = random.standard_normal((end - begin, self.axes.shape[1]), np.float32)
                part[begin:end] += self.centres[number] + along @ self.axes[number]
            random.shuffle(part)
        return drawn


def fit_mixture(vectors: Floats, members: int = MEMBERS) -> Mixture:
    """Fit a mixture to vectors (n, d): k-means, then the principal directions of each cluster."""
    count, dimensions = vectors.shape
    clusters = max(1, count // members)
    kmeans = faiss.Kmeans(dimensions, clusters, niter=20, seed=0, min_points_per_centroid=1)
    kmeans.train(vectors)
    nearest = kmeans.index.search(vectors, 1)[1][:, 0]
    sizes = np.bincount(nearest, minlength=clusters)
    centres = np.zeros((clusters, dimensions), np.float32)
    axes = np.zeros((clusters, DIRECTIONS, dimensions), np.float32)
    rest = np.zeros(clusters, np.float32)
    for number in np.flatnonzero(sizes):
        own = vectors[nearest == number]
        centres[number] = own.mean(axis=0)
        _, deviations, directions = np.linalg.svd(own - centres[number], full_matrices=False)
        variances = deviations**2 / max(1, len(own) - 1)
        kept = min(DIRECTIONS, len(variances))
        axes[number, :kept] = directions[:kept] * np.sqrt(variances[:kept, None])
        rest[number] = np.sqrt(variances[kept:].sum() / max(1, dimensions - kept))
    return Mixture(sizes / sizes.sum(), centres, axes, rest)


def describe_neighbours(vectors: Floats) -> dict[str, Any]:
    """Return quantiles of distances to the 1st and 100th neighbour, and the intrinsic dimension.

    The dimension is the median over vectors of the maximum likelihood estimate (Levina and Bickel 2004).
    """
    flat = faiss.IndexFlatL2(vectors.shape[1])
    flat.add(vectors)
    queries = vectors[
        np.random.default_rng(0).choice(len(vectors), min(CHECKED, len(vectors)), replace=False)
    ]
    squared = flat.search(queries, NEIGHBOURS + 1)[0][:, 1:]
    distances = np.sqrt(np.maximum(squared, 1e-12))
    logs = np.log(distances[:, -1:] / distances[:, :-1])
    return {
        "first": np.quantile(distances[:, 0], QUANTILES).round(2).tolist(),
        "hundredth": np.quantile(distances[:, -1], QUANTILES).round(2).tolist(),
        "dimension": round(float(np.median(1 / np.maximum(logs.mean(axis=1), 1e-9))), 1),
    }


BLOCK = 100_000  # images drawn and written at a time
SHARES = {"rare": 100, "tenth": 10, "half": 2}  # one in so many images has the label NAME=yes
RAW = 168  # values of `huang2012`, the smallest descriptor that has as many as the drawn vectors
INSERT_IMAGE = """
    INSERT INTO images (number, image_id, content_hash, source, source_stamp, format, width, height, study, series,
    instance, burned_in, patient_key, checksum) VALUES (?, ?, ?, ?, '', 'png', 512, 512, '', '', '', 0, NULL, ?)"""
INSERT_VECTOR = "INSERT INTO vectors (number, vector, checksum) VALUES (?, ?, ?)"
INSERT_LABEL = "INSERT INTO labels (key, value, number, checksum) VALUES (?, 'yes', ?, ?)"


def drawn_blocks(mixture: Mixture, images: int) -> Iterator[tuple[int, Floats]]:
    """Draw the vectors of the collection again: the number before the first of a block, and vectors of length 1."""
    for number, start in enumerate(range(0, images, BLOCK)):
        vectors = mixture.draw(min(BLOCK, images - start), np.random.default_rng([1, number]))
        yield start, vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def as_raw(vectors: Floats) -> Floats:
    """Return raw descriptor values (n, RAW) that the collection normalises to these vectors (n, d)."""
    raw = np.zeros((len(vectors), RAW), np.float32)
    raw[:, : vectors.shape[1]] = vectors
    return raw


def write_collection(folder: Path, mixture: Mixture, images: int) -> None:
    """Write a collection of so many images, with the labels of SHARES."""
    dimensions = mixture.centres.shape[1]
    profile = Profile(name="drawn", descriptor="huang2012", normalisation="project", components=dimensions)
    Collection.create(folder, profile).close()
    directions = np.eye(RAW, dimensions, dtype=np.float32)
    nothing = np.zeros(RAW, np.float32)
    statistics = Projection(nothing, directions, np.empty(0, np.float32), 1.0, max(images, MOST_IMAGES))
    engine = connect(folder)
    with engine.begin() as connection:
        stop_totals(connection)
    with tqdm(total=images, unit="image", desc="writing") as progress:
        for start, vectors in drawn_blocks(mixture, images):
            numbers = range(start + 1, start + 1 + len(vectors))
            blobs = [vector.tobytes() for vector in as_raw(vectors)]
            labels = [
                (name, number) for name, each in SHARES.items() for number in numbers if not number % each
            ]
            with engine.begin() as connection:
                driver = connection.connection.driver_connection
                assert driver is not None
                driver.executemany(INSERT_IMAGE, map(_image_row, numbers))
                driver.executemany(
                    INSERT_VECTOR,
                    (
                        (number, blob, vector_checksum(number, blob))
                        for number, blob in zip(numbers, blobs, strict=True)
                    ),
                )
                driver.executemany(
                    INSERT_LABEL, ((*label, values_checksum(label[0], "yes", label[1])) for label in labels)
                )
            progress.update(len(vectors))
    with engine.begin() as connection:
        record_change(connection, "benchmark", "added", images, numbers=(1, images))
        metadata.set_value(connection, "statistics", statistics.to_json())
        metadata.bump_generation(connection)
        start_totals(connection)
    engine.dispose()


def _image_row(number: int) -> tuple[int | str, ...]:
    name = f"{number:032x}"
    values = (number, name, name, f"/drawn/{number}.png")
    checksum = values_checksum(*values, "", "png", None, 512, 512, "", "", "", 0, None, "")
    return (*values, checksum)
