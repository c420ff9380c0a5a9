"""Lines of the page /docs that need others before them, and what the rest needs."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cbir.evaluation.datasets.phantoms.dicom_encoding import encode_dicom
from cbir.evaluation.datasets.phantoms.drawing import draw_phantom
from cbir.search import example_values as example
from cbir.system.features import features
from service.client.admin_messages import TOKEN_ID

SLICE_INDEX, SLICE_SEED, SLICE_SIDE = 1, 2026, 128  # of the phantom that lines send as slice.dcm


@dataclass(frozen=True)
class Maker:
    """Lines that make what an operation names.

    example: the id in the operation's examples, which the lines replace. field: of the response that holds the id.
    method, path, body: of the request, as the page's scripts build it. python: expression of the id.
    """

    variable: str
    example: str
    field: str
    path: str
    body: dict[str, Any]
    python: str

    def for_page(self) -> dict[str, Any]:
        """Return the maker as the page's scripts take it."""
        request = {"method": "POST", "path": self.path, "headers": [], "body": self.body}
        names = ("variable", "example", "field", "python")
        return {name: getattr(self, name) for name in names} | {"request": request}


@dataclass(frozen=True)
class OperationLines:
    """Lines of the operations of a feature.

    changing: what makes the thing that an operation changes or deletes, by operation; always made, so that nothing
    else is touched. showing: what makes a thing to show, where none exists. known_values: returns ids that the caller
    may see, by those of the examples.
    """

    changing: Mapping[str, Maker]
    showing: Mapping[str, Maker]
    known_values: Callable[[], dict[str, str]]


def feature_lines() -> Iterator[OperationLines]:
    """Yield the lines of features."""
    for feature in features():
        if feature.docs_lines:
            yield feature.load(feature.docs_lines)


def json_body(**content: Any) -> dict[str, Any]:
    """Return a body of JSON as the page's scripts take it."""
    return {"kind": "json", "media": "application/json", "text": json.dumps(content)}


IMAGE = Maker(
    "IMAGE_ID",
    example.IMAGE_ID,
    "ids",
    "/v1/images",
    {
        "kind": "form",
        "media": "multipart/form-data",
        "files": [
            "slice.dcm"
        ],  # what is deleted is not added again unless it is restored: no image of the reader
        "fields": [["duplicates", "true"], ["restore", "true"]],
    },
    'client.add(["slice.dcm"], duplicates=True, restore=True).ids[0]',
)
TOKEN = Maker(
    "TOKEN_ID",
    TOKEN_ID,
    "token_id",
    "/v1/admin/tokens",
    json_body(scopes=["search"], name="reading room"),
    'client.create_token(["search"], name="reading room").info.token_id',
)

FOLDER = "/archive/2024"  # of the example of `index`

# What these operations change, delete or return is made by the line before, so that nothing else is touched.
CHANGING = {
    **dict.fromkeys(("set_labels", "label_images", "delete", "delete_images", "original"), IMAGE),
    "revoke_token": TOKEN,
}
# The reader puts in an id: what exists must not change by a line that is pasted.
FILLED_BY_READER = ("cancel", "retry", "release", "refuse", "erase_patient")
OF_DICOM = ("similar", "similar_to_instance", "similar_to_series", "similar_to_study", "priors_of_study")
OF_TOKENS = ("create_token", "revoke_token")
OF_LABELS = ("set_labels", "label_images")
NEEDS = {
    **dict.fromkeys(
        OF_LABELS, "The line before adds an image, which needs a token with the scope `ingest` too."
    ),
    **dict.fromkeys(OF_DICOM, "Needs a DICOM image in the collection."),
    **dict.fromkeys(OF_TOKENS, "Needs a service with tokens, and one with the scope `admin`."),
    "cancel": "Put in the name of a job that waits or runs.",
    "retry": "Put in the name of a job that has failed or was cancelled.",
    "release": "Put in the id of an image in quarantine.",
    "refuse": "Put in the id of an image in quarantine.",
    "erase_patient": "Put in the key of a patient; that of the example erases nothing.",
    "federation_search": "The curl line needs the vector of an image of another service, and what its "
    "`federation_profile` says. Needs a token with the scope `federate`, the Python line also `originals`.",
    "federation_profile": "Needs a token with the scope `federate`.",
    "grade": "Needs a grade model of the collection: `cbir grade fit` fits one.",
    "original": "Needs the setting `keep_originals`. The line before adds an image, which needs the scope `ingest`.",
    "index": "Needs a folder below one of the setting `index_roots`.",
    "job": "Needs a job, such as one of `index`.",
    "quarantined_thumbnail": "Needs an image in quarantine.",
}


def maker_of(operation: str, values: dict[str, str]) -> dict[str, Any] | None:
    """Return what makes the thing that `operation` names, None if nothing does or `values` has one that exists."""
    makers = dict(CHANGING)
    for lines in feature_lines():
        makers |= lines.changing
        makers |= {name: maker for name, maker in lines.showing.items() if maker.example not in values}
    return makers[operation].for_page() if operation in makers else None


def sample_slice() -> bytes:
    """Return the DICOM file that lines send as slice.dcm: a phantom of the study `example.SLICE_STUDY_UID`."""
    return encode_dicom(draw_phantom(SLICE_INDEX, SLICE_SEED, SLICE_SIDE), SLICE_INDEX, SLICE_SEED)
