"""Parameters of requests, from query string, form and JSON."""

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

from flask import request
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
    WithJsonSchema,
)
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import UnsupportedMediaType

from cbir.errors import InvalidInput
from cbir.images import Region
from cbir.search import MAX_EXAMPLES, MAX_GROUP_SIZE, MAX_TEXT, Examples, ImageId, Judgements, Request
from cbir.search import example_values as example
from cbir.settings import Settings
from service.http import request_body
from service.http.problems import Malformed
from service.http.rerank_parameters import AsAssignments, AsObject

MULTIPART = "multipart/form-data"
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_TYPES = (JSON, MERGE_PATCH)
MAX_CONDITIONS = 32
MAX_JSON_NAMES = 10_000
MAX_SITES = 64
MAX_NAME_CHARACTERS = 255  # of a re-ranker, a collection, a profile or a label
MAX_DIMENSIONS = 65_536  # of a vector
REPEATABLE = (  # parameters that may be sent several times
    "where", "examples", "includefield", "label_keys", "parameters", "ranks", "answers", "sites",
)  # fmt: skip
PATIENT_KEY = re.compile(r"[0-9a-f]{32}")
UPLOAD_NAME = "the image sent"  # replaces the file name in messages: it may be a patient's name


def as_list(value: Any) -> Any:
    """Wrap a single string in a list; return any other `value` as it is."""
    return [value] if isinstance(value, str) else value


def _parse_list(value: Any) -> Any:
    """Parse a JSON list sent as text in a form or an address."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError("must be a JSON list") from None


Where = Annotated[
    list[str],
    BeforeValidator(as_list),
    Field(
        max_length=MAX_CONDITIONS,
        description="Conditions on labels, all of which must hold: KEY=VALUE, also != < <= > >=; KEY? for images "
        "with the label, !KEY? for those without. Of several KEY=VALUE with the same key any one. At most "
        f"{MAX_CONDITIONS}, each sent as a parameter of its own. A key that no image has is refused.",
        examples=[["modality=CT", "modality=MR", "grade>=2"]],
    ),
]


def _as_rows(value: Any) -> Any:
    """Wrap a list of numbers in a list; return other values as they are."""
    return [value] if isinstance(value, list) and value and not isinstance(value[0], list) else value


Vector = Annotated[list[FiniteFloat], Field(min_length=1, max_length=MAX_DIMENSIONS)]
_VALUES = {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": MAX_DIMENSIONS}
_VECTORS = {"type": "array", "items": _VALUES, "minItems": 1, "maxItems": MAX_EXAMPLES}
Vectors = Annotated[
    list[Vector],
    BeforeValidator(_as_rows),
    Field(min_length=1, max_length=MAX_EXAMPLES),
    WithJsonSchema({"anyOf": [_VALUES, _VECTORS]}),
]


class Parameters(BaseModel):
    """Base of all parameters of requests: other names are refused."""

    model_config = ConfigDict(extra="forbid")


SEARCH_FIELDS = (
    "k", "rerank", "where", "same_patient", "examples", "feedback", "score_threshold", "max_distance", "group_by",
    "group_size",
)  # fmt: skip


class SearchParameters(Parameters):
    """Parameters of every search."""

    federated: bool = Field(
        default=False,
        description="True to ask the other services of the setting `sites` too, with the vector of the query alone. "
        "Then the search is with one image or vector, without examples, judgements, groups and thresholds, and not "
        "re-ranked unless `rerank` names a method.",
        examples=[True],
    )
    sites: Annotated[
        list[Annotated[str, Field(max_length=MAX_NAME_CHARACTERS)]], BeforeValidator(as_list)
    ] = Field(
        default=[],
        max_length=MAX_SITES,
        description="Names of the services to ask, as `federated` does; all of them by default.",
        examples=[["north"]],
    )

    k: int = Field(
        default=20,
        ge=1,
        description="Number of results, or with `group_by` of groups, from 1 to the setting `max_results`; 20 by "
        "default. As many come back whenever as many match.",
        examples=[5],
    )
    rerank: Annotated[str | None, Field(max_length=MAX_NAME_CHARACTERS)] = Field(
        default=None,
        description="Name of a re-ranker, one of those of `/v1/rerankers` or `auto`; by default that of the "
        "service's settings.",
        examples=["aqe"],
    )
    parameters: AsObject
    where: Where = []
    exclude_patient: str | None = Field(
        default=None,
        description="Patient key, whose images are left out of the results; with the scope admin also the "
        "identifier it was made from, but not in the query string, since addresses are written to logs.",
        examples=[example.PATIENT_KEY],
    )
    same_patient: bool = Field(
        default=False,
        description="True for images of the query's patient only, without those of its own study: the other studies, "
        "most similar first. The query is an image of the collection with a patient key, or a DICOM file with a "
        "Patient ID, which counts towards `identifiers_per_hour`. Nothing is found where the patient is unknown.",
        examples=[True],
    )
    collection: Annotated[str | None, Field(max_length=MAX_NAME_CHARACTERS)] = Field(
        default=None,
        description="Name of the collection; the caller's first one by default.",
        examples=["knees"],
    )
    examples: Annotated[Examples, BeforeValidator(as_list)] = Field(
        default=[],
        description=f"Ids of further example images, all left out of the results; at most {MAX_EXAMPLES}.",
        examples=[[example.OTHER_IMAGE_ID]],
    )
    feedback: Judgements = Field(
        default=[], description="Judgements of images, from which the order is learned."
    )

    score_threshold: FiniteFloat | None = Field(
        default=None,
        description="Least score of a result. Scores are relative to the query and the method, so a threshold does "
        "not carry over to another query; those of a search by text do, since they are cosines.",
        examples=[0.5],
    )
    max_distance: Annotated[FiniteFloat | None, Field(ge=0)] = Field(
        default=None,
        description="Largest distance of a result from the query, the nearest of several examples. Distances are "
        "comparable between queries of a collection, until it is normalised again.",
        examples=[0.8],
    )
    group_by: Annotated[str | None, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)] = Field(
        default=None,
        description="Return at most `group_size` results of each patient, study or series, or of each value of a "
        "label: patient, study, series, or the key of a label, with label: before it if it is one of these words. An "
        "image without it is a group of its own.",
        examples=["study"],
    )
    group_size: int = Field(
        default=1,
        ge=1,
        le=MAX_GROUP_SIZE,
        description=f"Most results of a group, from 1 to {MAX_GROUP_SIZE}; 1 by default.",
        examples=[1],
    )

    anywhere: bool = Field(
        default=False,
        description="True for images that have something like `region` at any place, which their `match` tells; "
        "the score is the mean cosine of the region's cells there. Needs the cells of `cbir collection regions`. For "
        "a region of one image, without examples, feedback and re-ranking.",
        examples=[True],
    )

    def to_request(self, settings: Settings, patient_key: str | None) -> Request:
        """Return the request for the searcher, which excludes the patient of `patient_key`.

        Raises InvalidInput if k, or k times group_size, exceeds `max_results` of `settings`.
        """
        if self.k > settings.max_results:
            raise InvalidInput(f"k: at most {settings.max_results}, not {self.k}")
        if self.k * self.group_size > settings.max_results:
            raise InvalidInput(
                f"group_size: k x group_size is at most {settings.max_results}, not {self.k * self.group_size}"
            )
        values = {name: getattr(self, name) for name in SEARCH_FIELDS}
        values |= {"parameters": self.parameters.root, "exclude_patient_key": patient_key}
        return Request.model_validate(values)


def _split_numbers(value: Any) -> Any:
    return value.split(",") if isinstance(value, str) else value


Numbers = BeforeValidator(_split_numbers)


WindowParameter = Annotated[
    tuple[FiniteFloat, Annotated[FiniteFloat, Field(gt=0)]] | None,
    Numbers,
    Field(
        description="Window of a grey DICOM frame, as center,width in its values; by default that of the file.",
        examples=[[40.0, 400.0]],
    ),
]


class Rendering(Parameters):
    """Parts of an uploaded image."""

    frame: int | None = Field(
        default=None,
        ge=1,
        description="Frame of the file, from 1; the first one by default.",
        examples=[1],
    )
    region: Annotated[Region | None, Numbers] = Field(
        default=None,
        description="Part of the frame, as x,y,width,height in pixels from its upper left corner; by default all "
        "of it.",
        examples=[[40, 60, 120, 80]],
    )
    window: WindowParameter = None


class ByImage(SearchParameters, Rendering):
    """A search by uploaded images; frame, region and window apply to each."""

    parameters: AsAssignments
    feedback: Annotated[
        Judgements,
        BeforeValidator(_parse_list),
        WithJsonSchema({"type": "string", "contentMediaType": JSON, "default": "[]"}),
    ] = Field(
        default=[],
        description="Judgements of images, from which the order is learned: a JSON list of objects with image_id "
        "and relevance, from -1 (not relevant) to 1.",
        examples=[f'[{{"image_id": "{example.OTHER_IMAGE_ID}", "relevance": 1}}]'],
    )


class ById(SearchParameters):
    """A search by images of the collection, `image_id`, `examples`, or both; by `vector`; or by `text`."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"image_id": example.IMAGE_ID, "k": 5, "rerank": "none"}]}
    )

    image_id: ImageId | None = Field(
        default=None, description="Id of the image to search with.", examples=[example.IMAGE_ID]
    )
    region: Annotated[Region | None, Numbers] = Field(
        default=None,
        description="Part of `image_id` to search with, as x,y,width,height in pixels from its upper left corner; "
        "its file must still be there.",
        examples=[[40, 60, 120, 80]],
    )
    text: Annotated[str | None, Field(min_length=1, max_length=MAX_TEXT)] = Field(
        default=None,
        description="Words to search with, where the collection's encoder has a text tower; without image_id, "
        "examples, feedback and re-ranking, and in the JSON only, since addresses are written to logs.",
        examples=["chest radiograph"],
    )
    vector: Vectors | None = Field(
        default=None,
        description="Raw values of the profile's descriptor to search with, as many as the profile has `dimensions`; "
        f"or a list of at most {MAX_EXAMPLES} such lists, which are one query. Finite numbers. Images with the same "
        "vector are results like others. In the JSON only.",
        examples=[[0.12, 0.0, 3.5]],
    )
    profile: Annotated[str | None, Field(max_length=MAX_NAME_CHARACTERS)] = Field(
        default=None,
        description="Name or hash of the profile that `vector` was computed with; the search is refused if the "
        "collection has another one.",
        examples=["lite0-max"],
    )


Model = TypeVar("Model", bound=BaseModel)


def request_parameters(model: type[Model]) -> Model:
    """Parse query string, form and JSON body together as `model`; raises InvalidInput and Malformed."""
    _check_patient_keys(request.args.getlist("exclude_patient"))
    values = _collect(request.args, request.form if request.mimetype == MULTIPART else MultiDict())
    if request.mimetype in JSON_TYPES:
        for name, value in _json_object().items():
            _add(values, name, value if name in REPEATABLE and isinstance(value, list) else [value])
    return validate_parameters(model, values)


def _check_patient_keys(from_address: list[str]) -> None:
    if not all(map(PATIENT_KEY.fullmatch, from_address)):
        raise InvalidInput(
            "exclude_patient: an address may hold a patient key only (32 hexadecimal digits), since addresses are "
            "written to logs; send an identifier as a form field, or in the JSON"
        )


def query_parameters(model: type[Model]) -> Model:
    """Parse the query string alone as `model`; raises InvalidInput."""
    return validate_parameters(model, _collect(request.args))


def require_json() -> None:
    """Raise UnsupportedMediaType if the body is not declared as JSON."""
    if request.mimetype != JSON:
        raise UnsupportedMediaType(f"send {JSON}")


def json_body(model: type[Model]) -> Model:
    """Parse the JSON body alone as `model`; raises Malformed and InvalidInput."""
    return validate_parameters(model, _json_object())


def validate_parameters(model: type[Model], values: Any) -> Model:
    """Validate `values` as `model`; raises InvalidInput that names the first error."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise InvalidInput(_first_error(error, model.model_fields)) from error


def _collect(*sources: MultiDict[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for source in sources:
        for name, items in source.lists():
            _add(values, name, items)
    return values


def _add(values: dict[str, Any], name: str, items: list[Any]) -> None:
    if name in REPEATABLE:
        values[name] = values.get(name, []) + items
    elif name in values or len(items) != 1:
        raise InvalidInput(f"{name}: sent more than once")
    else:
        values[name] = items[0]


class _NameCounter:
    """Makes objects of JSON; raises InvalidInput if they have too many names together.

    Each unknown name would become an error of its own, which takes more time than all the rest.
    """

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self._count += len(pairs)
        if self._count > MAX_JSON_NAMES:
            raise InvalidInput(f"the body: the JSON has more than {MAX_JSON_NAMES} names")
        return dict(pairs)


def _json_object() -> dict[str, Any]:
    try:
        body = json.loads(
            request_body.read_body(request_body.MAX_JSON_BYTES, "a JSON body"),
            object_pairs_hook=_NameCounter(),
        )
        # half a surrogate pair is valid JSON, but not valid text
        json.dumps(body, ensure_ascii=False).encode()
    except RecursionError as error:
        raise InvalidInput("the body: the JSON is nested too deeply") from error
    except ValueError as error:
        raise Malformed("the body is not JSON, although its content type says so") from error
    if not isinstance(body, dict):
        raise InvalidInput("the body must be a JSON object, with names and values in braces")
    return body


def _first_error(error: ValidationError, names: Iterable[str]) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"{name}: there is no such parameter; there are: {', '.join(names)}"
    return f"{name}: {first['msg'][0].lower()}{first['msg'][1:]}"
