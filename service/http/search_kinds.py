"""Kinds of searches by JSON, each with fields of its own: by id, by vector, by text, or for a region."""

from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from cbir.errors import InvalidInput
from cbir.search import example_values as example
from cbir.search.search_options import SearchFields
from service.http.collection_paths import PARAMETER, collection_of_address

BOOLEAN = TypeAdapter(bool)
RANKING = (
    "same_patient",
    "exclude_own_study",
    "examples",
    "feedback",
    "rerank",
    "parameters",
    "federated",
    "sites",
)
SELECTION = (*(name for name in SearchFields.model_fields if name not in RANKING), "include")  # of every kind


@dataclass(frozen=True)
class SearchKind:
    """Fields of a kind of search. schema: its name in OpenAPI. phrase: its name in messages."""

    schema: str
    phrase: str
    description: str
    example: dict[str, Any]
    fields: tuple[str, ...]
    required: tuple[str, ...] = ()


BY_ID = SearchKind(
    "SearchById",
    "a search by id",
    "A search by images of the collection, `image_id`, `examples`, or both.",
    {"image_id": example.IMAGE_ID, "k": 5, "rerank": "none"},
    ("image_id", "region", *SELECTION, *RANKING),
)
BY_VECTOR = SearchKind(
    "SearchByVector",
    "a search by vector",
    "A search by vectors, which `examples` may add images of the collection to.",
    {"vector": [0.12, 0.0, 3.5], "profile": "lite0-max", "k": 5},
    ("vector", "profile", "origin", *SELECTION, *RANKING),
    ("vector",),
)
BY_TEXT = SearchKind(
    "SearchByText",
    "a search by text",
    "A search by words, where the collection's encoder has a text tower; it is not re-ranked.",
    {"text": "chest radiograph", "k": 5},
    ("text", *SELECTION),
    ("text",),
)
FOR_REGION = SearchKind(
    "SearchForRegion",
    "a search for a region",
    "A search for images that have something like a region of an image at any place; it is not re-ranked.",
    {"image_id": example.IMAGE_ID, "region": [40, 60, 120, 80], "anywhere": True, "k": 5},
    ("image_id", "region", "anywhere", "same_patient", "exclude_own_study", *SELECTION),
    ("image_id", "region", "anywhere"),
)
KINDS = (BY_ID, BY_VECTOR, BY_TEXT, FOR_REGION)


def check_search(values: dict[str, Any]) -> None:
    """Raise InvalidInput for a field that the kind of search has not; older addresses take all together."""
    if collection_of_address() is not None:
        _check(values, "")


def check_batch(values: dict[str, Any]) -> None:
    """Check each query of a batch as `check_search` does; what is no list of objects is left to validation."""
    queries = values.get("queries")
    if collection_of_address() is None or not isinstance(queries, list):
        return
    for number, query in enumerate(queries):
        if isinstance(query, dict):
            if PARAMETER in query:
                raise InvalidInput("queries: the address names the collection already; leave it out of each")
            _check(query, f"queries.{number}.")


def kind_of(values: dict[str, Any]) -> SearchKind:
    """Return the kind of search that fields are for: the first that only one kind has decides."""
    if values.get("vector") is not None:
        return BY_VECTOR
    if values.get("text") is not None:
        return BY_TEXT
    return FOR_REGION if _is_true(values.get("anywhere")) else BY_ID


def _is_true(value: Any) -> bool:
    """Return whether a value is true as validation reads it: in addresses it is a text."""
    try:
        return BOOLEAN.validate_python(value)
    except ValidationError:
        return bool(value)


def _check(values: dict[str, Any], prefix: str) -> None:
    kind = kind_of(values)
    for name in values.keys() - {PARAMETER}:
        if name not in kind.fields:
            fields = ", ".join(kind.fields)
            raise InvalidInput(f"{prefix}{name}: {kind.phrase} has no {name}; it has: {fields}")
    for name in kind.required:
        if values.get(name) is None:
            raise InvalidInput(f"{prefix}{name}: {kind.phrase} needs it")
