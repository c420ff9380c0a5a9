"""Collections of made-up Tamura vectors, of which many are equal."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cbir.images.scaling import encode_image
from cbir.store import Collection, Record
from cbir.store.base import profile as profiles
from cbir.store.writing.writer import Entry

DIMENSIONS = 6
KINDS = 25


def entry(number: int, random: np.random.Generator) -> Entry:
    """Return an image with one of KINDS vectors, so that there are duplicates and ties."""
    content_hash = hashlib.blake2b(str(number).encode(), digest_size=16).hexdigest()
    record = Record(
        content_hash=content_hash,
        source=f"/images/{number}.png",
        source_stamp="1",
        format="png",
        width=8,
        height=8,
        labels={"label": ("even", "odd")[number % 2], "ward": str(number % 3)},
        patient_key=f"{number // 4:032x}",
    )
    kind = np.random.default_rng(int(random.integers(0, KINDS)))
    return record, kind.integers(0, 4, DIMENSIONS).astype(np.float32)


def entries(count: int, seed: int = 0) -> list[Entry]:
    """Return images numbered from 0."""
    random = np.random.default_rng(seed)
    return [entry(number, random) for number in range(count)]


def create(folder: Path, images: Sequence[Entry], profile: str = "tamura") -> Path:
    """Create a collection of these images, with statistics of its own."""
    with Collection.create(folder, profiles.get(profile)) as collection, collection.writer() as writer:
        writer.add(images, duplicates=True)
        writer.finish()
    return folder


def picture() -> bytes:
    """Return a small JPEG."""
    return encode_image(np.zeros((8, 8), np.uint8), ".jpg")
