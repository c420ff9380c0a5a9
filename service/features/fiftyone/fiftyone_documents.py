"""Documents of FiftyOne's own format for folders, `FiftyOneDataset`: its fields and values in MongoDB's JSON.

FiftyOne migrates them from VERSION to its own version when it reads them.
"""

import base64
import hashlib
import io
import re
import zlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

Document = dict[str, Any]


def object_id(*parts: str) -> Document:
    """Return an identifier made from `parts`, the same for the same ones."""
    return {"$oid": hashlib.blake2b("\n".join(parts).encode(), digest_size=12).hexdigest()}


def moment(at: datetime) -> Document:
    """Return a time in UTC."""
    return {"$date": f"{at:%Y-%m-%dT%H:%M:%S}Z"}


def packed_vector(vector: NDArray[np.float32]) -> Document:
    """Return a vector (d,) as FiftyOne stores it: a compressed .npy file."""
    file = io.BytesIO()
    np.save(file, vector, allow_pickle=False)
    return {"$binary": {"base64": base64.b64encode(zlib.compress(file.getvalue())).decode(), "subType": "00"}}


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


def classification(value: str, *owner: str) -> Document:
    """Return the value of a label; `owner`: the image and the field, for its identifier."""
    return {"_id": object_id(*owner), "_cls": "Classification", "tags": [], "label": value}


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


def sample_document(
    path: str,
    picture: Document,
    labels: Mapping[str, str],
    vector: NDArray[np.float32],
    identity: tuple[str, str | None],
    at: datetime,
) -> Document:
    """Return a sample.

    Parameters
    ----------
    path : str
        Of its picture, below the folder.
    picture : dict
        Metadata of the picture, by the names of `METADATA`.
    labels : mapping
        Values by field.
    vector : (d,) float32
    identity : (str, str or None)
        Id of the image, and patient key.
    at : datetime
        Time of the export, in UTC.
    """
    image_id, patient_key = identity
    return {
        "_id": object_id(image_id),
        "filepath": path,
        "tags": [],
        "_media_type": "image",
        "_rand": int(image_id[:8], 16) / 2**32,
        "metadata": {"_cls": "ImageMetadata", **picture},
        "created_at": moment(at),
        "last_modified_at": moment(at),
        IMAGE_ID: image_id,
        PATIENT_KEY: patient_key,
        VECTOR: packed_vector(vector),
        **{field: classification(value, image_id, field) for field, value in labels.items()},
    }
