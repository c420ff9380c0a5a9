"""A collection of drawn vectors in three groups, whose name is the label of an image."""

import hashlib
from pathlib import Path

import numpy as np

from cbir.store import Collection, Record
from cbir.store.base import profile as profiles

GROUPS = {"rare": 30, "near": 60, "far": 400}
CENTRES = {"rare": [4, 0, 0, 0, 0, 0], "near": [4, 3, 0, 0, 0, 0], "far": [-2, 0, 3, 0, 0, 0]}


def draw(folder: Path) -> Path:
    """Make the collection; every second image is a DICOM instance."""
    random, entries = np.random.default_rng(0), []
    for label, count in GROUPS.items():
        for _ in range(count):
            number = len(entries)
            record = Record(
                content_hash=hashlib.blake2b(str(number).encode(), digest_size=16).hexdigest(),
                source=f"/images/{number}.png",
                source_stamp="1",
                format="dicom" if number % 2 else "png",
                width=40,
                height=30,
                study="1.2" if number % 2 else "",
                series=f"1.2.{number}" if number % 2 else "",
                instance=f"1.2.{number}.1" if number % 2 else "",
                sop_class="1.2.840.10008.5.1.4.1.1.1" if number % 2 else "",
                labels={"label": label, "=key": "=1+1"},
            )
            entries.append((record, (CENTRES[label] + random.standard_normal(6)).astype(np.float32)))
    with Collection.create(folder, profiles.get("tamura")) as collection, collection.writer() as writer:
        writer.add(entries)
        writer.finish()
    return folder


def labels_of(collection: Collection) -> dict[str, str]:
    """Return the label of each image by its id."""
    return {record.image_id: record.labels["label"] for _, record in collection.iterate()}
