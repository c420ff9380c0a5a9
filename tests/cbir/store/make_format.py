"""Writes the small collection that tests of later versions open.

python -m tests.cbir.store.make_format tests/cbir/store/format-N
"""

import csv
import sys
from pathlib import Path

from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.safety.last_good import drop_last_good
from tests.cbir.store.conftest import entry

IMAGES = 20


def make(folder: Path) -> None:
    """Write the collection, and expected.csv beside it."""
    with Collection.create(folder, profiles.get("tamura")) as collection:
        fill(collection, folder / "expected.csv")
        drop_last_good(folder)  # as large again, and of no use here
    (folder / "writer.lock").unlink()


def fill(collection: Collection, expected: Path) -> None:
    """Add random vectors in a snapshot and after it, labels, patients; delete one image; write what is `expected`."""
    with collection.writer() as writer:
        ids = writer.add(
            [entry(n, f"{n % 3:032x}", {"label": "even" if n % 2 else "odd"}) for n in range(15)]
        ).ids
        writer.finish()
        writer.delete(ids[3:4])
        writer.add([entry(n) for n in range(15, IMAGES)])
        writer.compact()
        writer.add([entry(n, None, {"label": "late"}) for n in range(IMAGES, IMAGES + 2)])
    with expected.open("w", newline="") as file:
        rows = csv.writer(file)
        for _, record in collection.iterate():
            vector = collection.vector(record.image_id)
            label = record.labels.get("label", "")
            rows.writerow([record.image_id, label, record.patient_key or "", *map(str, vector.tolist())])


if __name__ == "__main__":
    make(Path(sys.argv[1]))
