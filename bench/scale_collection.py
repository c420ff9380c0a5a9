"""Large collections of drawn vectors for benchmarks, written to SQLite without the checks of adding images."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tqdm import tqdm

from bench.scale_vectors import Mixture
from cbir.gallery.vector_blocks import Floats
from cbir.store import Collection
from cbir.store.base import metadata
from cbir.store.base.normalisation import MOST_IMAGES, Projection
from cbir.store.base.profile import Profile
from cbir.store.base.schema import connect
from cbir.store.base.statements import values_checksum, vector_checksum
from cbir.store.records.change_history import record_change
from cbir.store.safety.row_totals import start_totals, stop_totals

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
