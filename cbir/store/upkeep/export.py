"""Export a collection as plain files for other tools."""

import csv
import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.store.base.permissions import restrict_files
from cbir.store.base.vector_format import vector_format
from cbir.store.collection import Collection
from cbir.store.records import originals
from cbir.store.records.record_table import table_header, table_row
from cbir.store.views.collection_view import PAGE, vector_pages
from cbir.system.files import OWNER_FOLDER

SPOOL = "vectors.partial"
COLUMNS = ("image_id", "source", "frame", "study", "series", "instance", "patient_key")


def export_collection(collection: Collection, folder: Path, sources: bool = False) -> int:
    """Write records.csv, vectors.npy (raw, float32, a row per image) and profile.json; return the image count.

    Labels become columns of records.csv; its rows have the order of the vectors. A cell that a spreadsheet would run
    as a formula begins with an apostrophe. Paths of files, which may be names of patients, are replaced by keyed
    hashes unless `sources` is set. Only their owner can read the files. Raises
    InvalidInput if `folder` exists and is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput(f"{folder} exists and is not an empty folder; name another")
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True, mode=OWNER_FOLDER)
    keys = list(collection.label_keys())
    dimensions = vector_format(collection.profile).dimensions
    numbers = _spool_vectors(partial / SPOOL, collection)
    exported: list[int] = []
    with (partial / "records.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(table_header(COLUMNS, keys))
        secret = collection.secret
        for number, record in collection.iterate():
            row = int(np.searchsorted(numbers, number))
            if row == len(numbers) or numbers[row] != number:
                continue  # added after the vectors were read
            if not sources:
                record = replace(record, source=_hashed(record.source, secret))
            table.writerow(table_row(record, COLUMNS, keys))
            exported.append(row)
    _write_rows(partial / "vectors.npy", partial / SPOOL, exported, dimensions)
    (partial / SPOOL).unlink()
    profile = collection.profile.model_dump() | {"hash": collection.profile.hash}
    (partial / "profile.json").write_text(json.dumps(profile, indent=2) + "\n", encoding="utf-8")
    restrict_files(partial)
    partial.replace(folder)  # over an empty folder at most
    return len(exported)


def _spool_vectors(path: Path, collection: Collection) -> NDArray[np.int64]:
    """Write the raw vectors of all images to a file, and return the numbers of the images."""
    numbers = [np.empty(0, np.int64)]
    with collection._engine.connect() as connection, path.open("wb") as file:
        for raw, page in vector_pages(connection, 0, vector_format(collection.profile)):
            file.write(np.ascontiguousarray(raw, "<f4").data)
            numbers.append(page)
    return np.concatenate(numbers)


def _write_rows(path: Path, spool: Path, rows: list[int], dimensions: int) -> None:
    """Write these rows of the vectors in `spool` to a .npy file."""
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (len(rows), dimensions)}
        np.lib.format.write_array_header_1_0(file, header)
        if rows:
            raw = np.memmap(spool, "<f4", "r").reshape(-1, dimensions)
            for start in range(0, len(rows), PAGE):
                file.write(raw[rows[start : start + PAGE]].data)


def _hashed(source: str, secret: bytes) -> str:
    """Return the source of an upload as it is, which is a hash already, and a keyed hash of any other."""
    if source.startswith(originals.UPLOAD):
        return source
    digest = hashlib.blake2b(b"source " + os.fsencode(source), key=secret, digest_size=16)
    return f"source:{digest.hexdigest()}"
