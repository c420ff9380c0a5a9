"""Parameters of requests, from query string, form and JSON, and those that choose a part of an image."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, TypeVar

from flask import request
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
)
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import UnsupportedMediaType

from cbir.errors import InvalidInput
from cbir.images import Region
from cbir.search.search_models import MAX_NAME_CHARACTERS as MAX_NAME_CHARACTERS
from service.http import request_bodies
from service.http.collection_paths import add_collection
from service.http.problems import Malformed
from service.http.request_bodies import MULTIPART

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_TYPES = (MERGE_PATCH, JSON)
MAX_CONDITIONS = 32
MAX_JSON_NAMES = 10_000
REPEATABLE = (  # parameters that may be sent several times
    "where", "examples", "includefield", "label_keys", "parameters", "ranks", "answers", "sites", "region", "window",
    "include", "origin",
)  # fmt: skip
PATIENT_KEY = re.compile(r"[0-9a-f]{32}")
UPLOAD_NAME = "the image sent"  # replaces the file name in messages: it may be a patient's name


def as_list(value: Any) -> Any:
    """Wrap a single string in a list; return any other `value` as it is."""
    return [value] if isinstance(value, str) else value


def from_json(value: Any) -> Any:
    """Parse a `value` sent as JSON text in a form or an address; return any other as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError("must be JSON") from None


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


class Parameters(BaseModel):
    """Base of all parameters of requests: other names are refused."""

    model_config = ConfigDict(extra="forbid")


Model = TypeVar("Model", bound=BaseModel)


def request_parameters(model: type[Model], check: Callable[[dict[str, Any]], None] | None = None) -> Model:
    """Parse query string, form and JSON body together as `model`; raises InvalidInput and Malformed.

    check: looks at the values before they are validated, and raises InvalidInput.
    """
    _check_patient_keys(request.args.getlist("exclude_patient"))
    values = _collect(request.args, request.form if request.mimetype == MULTIPART else MultiDict())
    if request.mimetype in JSON_TYPES:
        for name, value in _json_object().items():
            _add(values, name, value if name in REPEATABLE and isinstance(value, list) else [value])
    add_collection(model, values)
    if check:
        check(values)
    return validate_parameters(model, values)


def _check_patient_keys(from_address: list[str]) -> None:
    if not all(map(PATIENT_KEY.fullmatch, from_address)):
        raise InvalidInput(
            "exclude_patient: an address may hold a patient key only (32 hexadecimal digits), since addresses are "
            "written to logs; send an identifier as a form field, or in the JSON"
        )


def query_parameters(model: type[Model]) -> Model:
    """Parse the query string alone as `model`; raises InvalidInput."""
    values = _collect(request.args)
    add_collection(model, values)
    return validate_parameters(model, values)


def require_json(types: Sequence[str] = (JSON,)) -> None:
    """Raise UnsupportedMediaType if the body is not declared as one of `types`."""
    if request.mimetype not in types:
        raise UnsupportedMediaType(f"send {' or '.join(types)}")


def json_body(model: type[Model], types: Sequence[str] = (JSON,)) -> Model:
    """Parse the JSON body alone as `model`; raises UnsupportedMediaType, Malformed and InvalidInput."""
    require_json(types)
    values = _json_object()
    add_collection(model, values)
    return validate_parameters(model, values)


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
            request_bodies.read_body(request_bodies.MAX_JSON_BYTES, "a JSON body"),
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


def _split_numbers(value: Any) -> Any:
    """Split numbers with commas, or in several fields of the same name, which generated clients send."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = ",".join(value)
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


MAX_SIDE = 2048  # of pixel values: 8 MiB of 16 bits
Pixels = Annotated[
    bool,
    Field(
        description="True for the pixel values, to be shown in any window, in place of a picture: a body of numbers, "
        "and the header Image-Facts, JSON that says what they are (`PixelFacts`). Grey DICOM and NIfTI images have "
        "16 bits and a slope and intercept, CT in HU; other images have bytes.",
        examples=[True],
    ),
]
Side = Annotated[
    int,
    Field(
        ge=64,
        le=MAX_SIDE,
        description=f"Longest side of the pixel values, from 64 to {MAX_SIDE}; larger images are reduced, so send "
        "`region` to see a part in full.",
        examples=[1024],
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
