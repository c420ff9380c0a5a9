"""Graded cases whose order is known, for the tests of grading."""

import cv2
import numpy as np

from cbir.descriptors import get as descriptor
from cbir.images import Image
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.records.records import add_labels, describe_record


def drawn(count=120, dimensions=6, levels=4, noise=0.5, seed=0):
    """Features (n, d), grades (n,) from 1 and patients (n,), two images each."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(count, dimensions)) * random.uniform(0.1, 50, dimensions) + 7
    severity = (X - X.mean(0)) / X.std(0) @ np.linspace(1, -0.3, dimensions)
    severity += noise * random.normal(size=count)
    cuts = np.quantile(severity, np.linspace(0, 1, levels + 1)[1:-1])
    return X, 1.0 + np.searchsorted(cuts, severity), np.arange(count) // 2


def collection_of(folder, order, pictures=None):
    """A collection of pictures with grades, in this order; their files are in the folder `pictures`."""
    made = Collection.create(folder, profiles.get("color_layout"))
    entries = []
    for number in order:
        random = np.random.default_rng(number)
        grade = number % 3
        pixels = np.clip(random.normal(60 + 50 * grade, 12, (32, 32)), 0, 255).astype(np.uint8)
        pixels = np.kron(pixels[::8, ::8], np.ones((8, 8), np.uint8))
        image = Image(pixels)
        source = f"{number}.png"
        if pictures is not None:
            source = str(pictures / source)
            cv2.imwrite(source, pixels)
        record = describe_record(image, source=source, source_stamp="1", secret=made.secret)
        labels = {"grade": str(grade), "patient": f"Doe^{number // 2}"}
        entries.append((add_labels(record, labels, made.secret), descriptor("color_layout")(image)))
    with made.writer() as writer:
        writer.add(entries)
        writer.finish()
    return made
