"""Write a collection in which labelled images stand among drawn ones, for `bench/candidate_quality.py`.

The first images are those of a small collection, with their vectors and the label `label`; the others are drawn from
a mixture that is fitted to them, and have no label: no query finds them relevant.

    python -m bench.labelled_among_drawn --collection COMPOSITE --images 1000000 --folder FOLDER
"""

import argparse
from pathlib import Path

from bench.scale_collection import as_raw, fit_mixture, write_collection
from cbir.gallery.vector_blocks import Floats
from cbir.store import Collection
from cbir.store.base.damage import start_totals, stop_totals
from cbir.store.base.schema import connect
from cbir.store.base.statements import values_checksum, vector_checksum

REPLACE_VECTOR = "UPDATE vectors SET vector = ?, checksum = ? WHERE number = ?"
ADD_LABEL = "INSERT INTO labels (key, value, number, checksum) VALUES ('label', ?, ?, ?)"


def read_labelled(folder: Path) -> tuple[Floats, list[str]]:
    """Return the normalised vectors (n, d) of a collection, and the value of `label` of each image."""
    with Collection(folder) as collection:
        gallery = collection.view().gallery
        records = collection.records(gallery.ids.tolist())
        labels = [records[number].labels["label"] for number in gallery.ids.tolist()]
        return gallery.vectors(collection.view().rows_of(gallery.ids)), labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collection", type=Path, required=True, help="small collection with labels")
    parser.add_argument("--images", type=int, default=100_000, help="images in all")
    parser.add_argument("--folder", type=Path, required=True, help="folder of the new collection")
    options = parser.parse_args()
    vectors, labels = read_labelled(options.collection)
    write_collection(options.folder, fit_mixture(vectors), options.images)
    engine = connect(options.folder)
    with engine.begin() as connection:
        stop_totals(connection)
        driver = connection.connection.driver_connection
        assert driver is not None
        blobs = [raw.tobytes() for raw in as_raw(vectors)]
        numbered = list(enumerate(blobs, start=1))
        driver.executemany(
            REPLACE_VECTOR, ((blob, vector_checksum(number, blob), number) for number, blob in numbered)
        )
        rows = enumerate(labels, start=1)
        driver.executemany(
            ADD_LABEL, ((value, number, values_checksum("label", value, number)) for number, value in rows)
        )
        start_totals(connection)
    engine.dispose()
    with Collection(options.folder) as collection, collection.writer() as writer:
        writer.snapshot()


if __name__ == "__main__":
    main()
