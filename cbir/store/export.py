"""Export a collection as plain files for other tools."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np

from cbir.errors import InvalidInput
from cbir.store.collection import Collection
from cbir.store.collection_view import load_vectors, vector_length

COLUMNS = ("image_id", "source", "frame", "study", "series", "instance", "patient_key")


def export_collection(collection: Collection, folder: Path) -> int:
    """Write records.csv, vectors.npy (raw, float32, a row per image) and profile.json; return the image count.

    Labels become columns of records.csv; its rows have the order of the vectors. Raises InvalidInput if `folder`
    exists and is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput(f"{folder} exists and is not an empty folder; name another")
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    keys = list(collection.label_keys())
    with collection._engine.connect() as connection:
        raw, numbers = load_vectors(connection, 0, vector_length(collection.profile))
    exported: list[int] = []
    with (partial / "records.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow([*COLUMNS, *(f"label:{key}" if key in COLUMNS else key for key in keys)])
        for number, record in collection.iterate():
            row = int(np.searchsorted(numbers, number))
            if row == len(numbers) or numbers[row] != number:
                continue  # added after the vectors were read
            values = [getattr(record, column) for column in COLUMNS]
            table.writerow([*values, *(record.labels.get(key, "") for key in keys)])
            exported.append(row)
    np.save(partial / "vectors.npy", raw[exported])
    profile = collection.profile.model_dump() | {"hash": collection.profile.hash}
    (partial / "profile.json").write_text(json.dumps(profile, indent=2) + "\n")
    partial.replace(folder)  # over an empty folder at most
    return len(exported)
