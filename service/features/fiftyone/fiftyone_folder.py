"""A collection as a folder in FiftyOne's own format `FiftyOneDataset`: pictures, labels and vectors."""

import base64
import hashlib
import io
import json
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.images import Image
from cbir.images.scaling import encode_image
from cbir.ingest.burned_in_text import find_burned_in_text, reader_path
from cbir.ingest.pixel_checks import findings_of
from cbir.learn.severity.stored_images import read_stored_image
from cbir.settings import Settings
from cbir.store import Collection, Record
from cbir.store.base.collection_folder import restrict_files
from cbir.store.base.damage import raise_when_full
from cbir.system.files import OWNER_FOLDER, atomic_text, write_bytes

VERSION = "1.0.0"  # FiftyOne migrates documents from it to its own when it reads them
FIELDS = "fiftyone.core.fields."
RESERVED = frozenset(("id", "filepath", "tags", "metadata", "created_at", "last_modified_at", "media_type"))
VECTOR, IMAGE_ID, PATIENT_KEY = "cbir_vector", "image_id", "patient_key"
BRAIN_KEY = "cbir"
SIMILARITY = {"cls": "fiftyone.brain.internal.core.sklearn.SklearnSimilarityIndex"}  # results of the run
METADATA = {
    "size_bytes": "IntField",
    "mime_type": "StringField",
    "width": "IntField",
    "height": "IntField",
    "num_channels": "IntField",
}
AT_ONCE = 500  # records

Document = dict[str, Any]


def object_id(*parts: str) -> Document:
    """Return an identifier made from `parts`, the same for the same ones."""
    return {"$oid": hashlib.blake2b("\n".join(parts).encode(), digest_size=12).hexdigest()}


def moment(at: datetime) -> Document:
    """Return a time in UTC."""
    return {"$date": f"{at:%Y-%m-%dT%H:%M:%S}Z"}


def field_names(keys: Iterable[str]) -> dict[str, str]:
    """Return a field for each label: its key, changed where FiftyOne would refuse it or has such a field."""
    names = dict[str, str]()
    used_names = {*RESERVED, VECTOR, IMAGE_ID, PATIENT_KEY}
    for key in sorted(keys):
        name = re.sub(r"\W", "_", key, flags=re.ASCII)
        if name in used_names or not re.match(r"[A-Za-z]", name):
            name = f"label_{name}"
        while name in used_names:
            name += "_"
        used_names.add(name)
        names[key] = name
    return names


def dataset_document(name: str, fields: Iterable[str], at: datetime) -> Document:
    """Return metadata.json.

    Parameters
    ----------
    name : str
        Of the data set.
    fields : iterable of str
        Fields of labels.
    at : datetime
        Time of the export, in UTC.
    """
    label = [
        _field("id", "ObjectIdField", db_field="_id"),
        _field("tags", "ListField", subfield="StringField"),
        _field("label", "StringField"),
        _field("confidence", "FloatField"),
        _field("logits", "VectorField"),
    ]
    return {
        "_id": object_id("dataset", name),
        "name": name,
        "slug": name,
        "version": VERSION,
        "created_at": moment(at),
        "last_modified_at": moment(at),
        "last_loaded_at": moment(at),
        "sample_collection_name": f"samples.{object_id('dataset', name)['$oid']}",
        "persistent": False,
        "media_type": "image",
        "tags": [],
        "info": {},
        "sample_fields": [
            _field("id", "ObjectIdField", db_field="_id"),
            _field("filepath", "StringField"),
            _field("tags", "ListField", subfield="StringField"),
            _document_field(
                "metadata", "metadata.ImageMetadata", [_field(*item) for item in METADATA.items()]
            ),
            _field("created_at", "DateTimeField") | {"read_only": True},
            _field("last_modified_at", "DateTimeField") | {"read_only": True},
            _field(IMAGE_ID, "StringField"),
            _field(PATIENT_KEY, "StringField"),
            _field(VECTOR, "VectorField"),
            *(_document_field(field, "labels.Classification", label) for field in fields),
        ],
        "frame_fields": [],
        "brain_methods": {BRAIN_KEY: _similarity(name, at)},
    }


def _similarity(name: str, at: datetime) -> Document:
    """Return the run that FiftyOne sorts by similarity with: exact, by the vectors of the samples."""
    return {
        "_id": object_id("similarity", name),
        "_dataset_id": object_id("dataset", name),
        "key": BRAIN_KEY,
        "version": VERSION,
        "timestamp": moment(at),
        "config": {
            "cls": "fiftyone.brain.internal.core.sklearn.SklearnSimilarityConfig",
            "type": "similarity",
            "method": "sklearn",
            "embeddings_field": VECTOR,
            "model": None,
            "patches_field": None,
            "supports_prompts": False,
            "metric": "euclidean",
        },
        "results": None,
    }


def _field(name: str, kind: str, *, subfield: str | None = None, db_field: str | None = None) -> Document:
    return {
        "name": name,
        "ftype": FIELDS + kind,
        "embedded_doc_type": None,
        "subfield": subfield and FIELDS + subfield,
        "fields": [],
        "db_field": db_field or name,
        "description": None,
        "info": None,
        "read_only": False,
    }


def _document_field(name: str, kind: str, fields: list[Document]) -> Document:
    embedded = {"embedded_doc_type": f"fiftyone.core.{kind}", "fields": fields}
    return _field(name, "EmbeddedDocumentField") | embedded


@dataclass(frozen=True)
class ShownPictures:
    """The pictures of a collection that have no text in the pixels.

    Text is what DICOM declares, the intake check found, or, with `find_text`, a look at the picture finds; that needs
    a package, and raises InvalidInput without it. max_pixels: of the largest file.
    """

    collection: Collection
    max_pixels: int
    find_text: bool = False

    def __post_init__(self) -> None:
        if self.find_text:
            reader_path()

    def read(self, record: Record) -> Image | None:
        """Return an image, or its thumbnail if the file is gone; None without both or with text in it."""
        if record.burned_in or "text" in findings_of(record):
            return None
        image = read_stored_image(self.collection, record, self.max_pixels)
        has_text = image is not None and self.find_text and find_burned_in_text(image.grey) is not None
        return None if has_text else image


class WrittenSamples(NamedTuple):
    """Numbers of samples, and of images left out: with text in the pixels, or without a file."""

    samples: int
    left_out: int


def write_fiftyone_folder(
    collection: Collection,
    folder: Path,
    settings: Settings,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    find_text: bool = False,
) -> WrittenSamples:
    """Write metadata.json, samples.json and data/ for their owner alone; the folder appears when all is done.

    Each sample has the image's id, its patient key, its labels as classifications and its vector as searches compare
    it: the Euclidean distances are those of the list before re-ranking. FiftyOne sorts by them with the run `cbir`.

    Parameters
    ----------
    collection : Collection
    folder : Path
        Folder that does not exist, or is empty.
    settings : Settings
        Limits.
    progress : callable
        Called with the images done and in all; what it raises ends the export.
    find_text : bool
        As of `ShownPictures`.

    Raises
    ------
    InvalidInput
        If the folder is not empty, the collection has too many vectors to load, or a package is missing.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput(f"{folder} exists and is not an empty folder; name another")
    if len(collection) > settings.exact_limit:
        limit = settings.exact_limit
        raise InvalidInput(
            f"an export reads all vectors: it works up to {limit} images (setting exact_limit)"
        )
    pictures = ShownPictures(collection, settings.max_pixels, find_text)
    partial = folder.absolute().with_name(f"{folder.absolute().name}.partial")
    with raise_when_full(folder.absolute().parent):
        shutil.rmtree(partial, ignore_errors=True)  # of an interrupted export, perhaps of other images
        partial.mkdir(parents=True, mode=OWNER_FOLDER)
        (partial / "data").mkdir(mode=OWNER_FOLDER)
        names, at = field_names(collection.label_keys()), datetime.now(UTC)
        written = total = 0
        with atomic_text(partial / "samples.json") as file:
            file.write('{"samples": [')
            for total, (record, vector) in enumerate(_records(collection), start=1):
                image = pictures.read(record)
                if image is not None:
                    file.write(",\n" if written else "\n")
                    labels = {names[key]: value for key, value in record.labels.items() if key in names}
                    json.dump(_write_sample(partial, record, image, labels, vector, at), file)
                    written += 1
                progress(total, len(collection))
            file.write("\n]}\n")
        document = dataset_document(folder.absolute().name, names.values(), at)
        with atomic_text(partial / "metadata.json") as file:
            json.dump(document, file, indent=1)
        (partial / "brain").mkdir(mode=OWNER_FOLDER)
        with atomic_text(partial / "brain" / f"{BRAIN_KEY}.json") as file:
            json.dump(SIMILARITY, file)
        restrict_files(partial)
        partial.replace(folder)  # over an empty folder at most
    return WrittenSamples(written, total - written)


def _records(collection: Collection) -> Iterator[tuple[Record, NDArray[np.float32]]]:
    """Yield the images of a collection with their vectors, in its order."""
    view = collection.view()
    rows = np.arange(len(view.gallery)) if view.rows is None else view.rows
    for start in range(0, len(rows), AT_ONCE):
        part = rows[start : start + AT_ONCE]
        vectors, numbers = view.gallery.vectors(part), view.gallery.ids[part].tolist()
        records = collection.records(numbers)
        for number, vector in zip(numbers, vectors, strict=True):
            if number in records:  # else deleted meanwhile
                yield records[number], np.asarray(vector, np.float32)


def _write_sample(
    folder: Path,
    record: Record,
    image: Image,
    labels: dict[str, str],
    vector: NDArray[np.float32],
    at: datetime,
) -> Document:
    """Write the picture of a sample, and return its document. `labels`: by field. `at`: time of the export."""
    image_id, path = record.image_id, f"data/{record.image_id}.png"
    data, file = encode_image(image.pixels, ".png"), io.BytesIO()
    write_bytes(folder / path, data)
    np.save(file, vector, allow_pickle=False)
    packed = base64.b64encode(zlib.compress(file.getvalue())).decode()
    return {
        "_id": object_id(image_id),
        "filepath": path,
        "tags": [],
        "_media_type": "image",
        "_rand": int(image_id[:8], 16) / 2**32,
        "metadata": {
            "_cls": "ImageMetadata",
            "size_bytes": len(data),
            "mime_type": "image/png",
            "width": image.width,
            "height": image.height,
            "num_channels": 1 if image.pixels.ndim == 2 else 3,
        },
        "created_at": moment(at),
        "last_modified_at": moment(at),
        IMAGE_ID: image_id,
        PATIENT_KEY: record.patient_key,
        VECTOR: {"$binary": {"base64": packed, "subType": "00"}},  # a compressed .npy file
        **{
            field: {
                "_id": object_id(image_id, field),
                "_cls": "Classification",
                "tags": [],
                "label": value,
            }
            for field, value in labels.items()
        },
    }
