"""A collection of drawn vectors."""

from pathlib import Path
from typing import Any

import numpy as np

from cbir.images import from_array
from cbir.search.view_vectors import ViewVectors
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.records.records import add_labels, describe_record


def entry(created: Collection, number: int, vector: np.ndarray):
    picture = np.random.default_rng(number).integers(0, 256, (8, 8), np.uint8)
    record = describe_record(
        from_array(picture), source=f"/{number}", source_stamp="1", secret=created.secret
    )
    return add_labels(record, {"side": "left" if number % 3 else "right"}, created.secret), vector


def create_collection(folder: Path) -> Collection:
    """Return a collection of 400 images with a snapshot and 40 after it, of which every eleventh was deleted."""
    created = Collection.create(folder, profiles.get("tamura"))
    random = np.random.default_rng(0)
    vectors = (random.integers(0, 3, (440, 1)) + 0.3 * random.standard_normal((440, 6))).astype(np.float32)
    with created.writer() as writer:
        writer.add([entry(created, number, vectors[number]) for number in range(400)])
        writer.finish()
        writer.compact()
        writer.add([entry(created, number, vectors[number]) for number in range(400, 440)])
        ids = [record.image_id for _, record in created.iterate()]
        writer.delete(ids[::11])
    return created


class VectorsBehind:
    """The vectors of a collection as if they were behind a vector index."""

    def __init__(self, collection: Collection) -> None:
        self._vectors = ViewVectors(collection)

    def __len__(self) -> int:
        return len(self._vectors)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._vectors, name)
