"""What a request asks for: its parameters, from wherever they stand, and its image."""

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
from werkzeug.exceptions import RequestEntityTooLarge, UnsupportedMediaType

from cbir.errors import InvalidInput
from cbir.images import Image, Limits, Region, crop, decode
from cbir.search import MOST_EXAMPLES, Examples, Judgements, Request, query_frame
from cbir.settings import Settings
from service.http import request_body
from service.http.timeouts import Watch
from service.http.problems import Malformed

MULTIPART = "multipart/form-data"
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_KINDS = (JSON, MERGE_PATCH)
RAW = ("application/dicom", "application/octet-stream")
MOST_CONDITIONS = 32
LISTS = ("where", "examples", "includefield")  # may be given several times
PATIENT_KEY = re.compile(r"[0-9a-f]{32}")
NAME = "the image sent"  # stands for the upload in messages: its file name may be a patient's


def one_or_more(value: Any) -> Any:
    """A list, of a value that stands alone too."""
    return [value] if isinstance(value, str) else value


def _listed(value: Any) -> Any:
    """A list as it is, or as JSON where a form or an address holds it."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError("must be a JSON list") from None


Where = Annotated[list[str], BeforeValidator(one_or_more), Field(max_length=MOST_CONDITIONS)]


class Parameters(BaseModel):
    """Of every search. rerank None means the settings' one, collection None the first."""

    model_config = ConfigDict(extra="forbid")

    k: int = Field(20, ge=1)
    rerank: str | None = None
    where: Where = []
    exclude_patient: str | None = Field(
        None,
        description="a patient key, or the identifier it was made from; in the query string a key only, "
        "since addresses are written into logs",
    )
    collection: str | None = None
    examples: Annotated[Examples, BeforeValidator(one_or_more)] = Field(
        [], description="ids of further examples, all left out of the answer"
    )
    feedback: Judgements = Field([], description="what the person said of images")

    def request(self, settings: Settings) -> Request:
        """As the search path takes it; raises InvalidInput where k is larger than allowed."""
        if self.k > settings.max_results:
            raise InvalidInput(f"k: at most {settings.max_results}, not {self.k}")
        return Request(
            k=self.k,
            rerank=self.rerank,
            where=self.where,
            exclude_patient=self.exclude_patient,
            examples=self.examples,
            feedback=self.feedback,
        )


def _numbers(value: Any) -> Any:
    return value.split(",") if isinstance(value, str) else value


Numbers = BeforeValidator(_numbers)


class Rendering(BaseModel):
    """An image sent to be shown.

    frame counts from 1. region: x,y,width,height in pixels of the frame, from its upper left corner. window:
    center,width in the values of a grey DICOM frame.
    """

    model_config = ConfigDict(extra="forbid")

    frame: int | None = Field(None, ge=1)
    region: Annotated[Region | None, Numbers] = None
    window: Annotated[tuple[FiniteFloat, Annotated[FiniteFloat, Field(gt=0)]] | None, Numbers] = None


class ByImage(Parameters, Rendering):
    """A search with images that are sent along; frame, region and window are of each."""

    feedback: Annotated[
        Judgements,
        BeforeValidator(_listed),
        WithJsonSchema({"type": "string", "contentMediaType": JSON, "default": "[]"}),
    ] = Field([], description="a JSON list of judgements, each with image_id and relevance from -1 to 1")


class ById(Parameters):
    """A search with images of the collection: `image_id`, `examples`, or both.

    region: x,y,width,height in pixels of `image_id`, to search with that part of it; 410 where its file is gone.
    """

    image_id: str | None = None
    region: Annotated[Region | None, Numbers] = None


Model = TypeVar("Model", bound=BaseModel)


def parameters(model: type[Model]) -> Model:
    """The request's parameters, from query string, form and JSON body together; raises InvalidInput."""
    given: dict[str, Any] = {}
    sources = [request.args.lists()]
    if request.mimetype == MULTIPART:
        sources.append(request.form.lists())
    _check_identifiers(request.args.getlist("exclude_patient"))
    for name, values in (pair for source in sources for pair in source):
        _add(given, name, values)
    if request.mimetype in JSON_KINDS:
        for name, value in _json_object().items():
            _add(given, name, value if name in LISTS and isinstance(value, list) else [value])
    return check(model, given)


def _check_identifiers(in_address: list[str]) -> None:
    if not all(map(PATIENT_KEY.fullmatch, in_address)):
        raise InvalidInput(
            "exclude_patient: in an address only a patient key is taken (32 hexadecimal digits), for addresses are "
            "written into logs; send an identifier as a form field, or in the JSON"
        )


def query(model: type[Model]) -> Model:
    """The query string alone; raises InvalidInput."""
    given: dict[str, Any] = {}
    for name, values in request.args.lists():
        _add(given, name, values)
    return check(model, given)


def require_json() -> None:
    """Raise UnsupportedMediaType for a body that does not say it is JSON."""
    if request.mimetype != JSON:
        raise UnsupportedMediaType(f"send {JSON}")


def body(model: type[Model]) -> Model:
    """The JSON body alone as a model; raises Malformed and InvalidInput."""
    return check(model, _json_object())


def check(model: type[Model], given: Any) -> Model:
    """Values as a model; raises InvalidInput."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise InvalidInput(_first(error, model.model_fields)) from error


def _add(given: dict[str, Any], name: str, values: list[Any]) -> None:
    if name in LISTS:
        given[name] = given.get(name, []) + values
    elif name in given or len(values) != 1:
        raise InvalidInput(f"{name}: given more than once")
    else:
        given[name] = values[0]


def _json_object() -> dict[str, Any]:
    try:
        body = json.loads(request_body.read(request_body.JSON_BYTES, "a JSON body"))
        json.dumps(body, ensure_ascii=False).encode()  # half a surrogate pair is JSON, but no text
    except (ValueError, RecursionError) as error:
        raise Malformed("the body is not JSON, which its content type says it is") from error
    if not isinstance(body, dict):
        raise InvalidInput("the body must be a JSON object, with names and values in braces")
    return body


def _first(error: ValidationError, known: Iterable[str]) -> str:
    """The first thing wrong, in words."""
    first = error.errors(include_url=False, include_context=False)[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"{name}: there is no such parameter; there are: {', '.join(known)}"
    return f"{name}: {first['msg'][0].lower()}{first['msg'][1:]}"


def image(settings: Settings, data: bytes, wanted: Rendering, watch: Watch) -> Image:
    """The frame of an upload to work with, or the region of it; raises UnreadableImage and InvalidInput."""
    frames = decode(data, NAME, limits=Limits(pixels=settings.max_pixels), window=wanted.window)
    found = query_frame(watch.each(frames), wanted.frame, NAME)
    if wanted.window and not found.windowing:
        raise InvalidInput("window: only grey DICOM images have one; leave it out")
    return crop(found, wanted.region) if wanted.region else found


def example_uploads(settings: Settings) -> list[bytes]:
    """The image files of a search, one or several."""
    files = uploads(settings)
    if len(files) > MOST_EXAMPLES:
        raise InvalidInput(f"image: at most {MOST_EXAMPLES} files, not {len(files)}")
    return files


def upload(settings: Settings) -> bytes:
    """The image file in the request, as a multipart field `image` or as the body itself; at least one byte."""
    files = uploads(settings)
    if len(files) != 1:
        raise InvalidInput(f"image: one file is needed in this field, not {len(files)}")
    return files[0]


def uploads(settings: Settings) -> list[bytes]:
    """The image files in the request, each of at least one byte."""
    if request.mimetype == MULTIPART:
        files = _file_parts()
    elif request.mimetype in RAW or request.mimetype.startswith("image/"):
        files = [request.get_data(cache=False)]
    else:
        raise UnsupportedMediaType(
            "send an image as multipart/form-data (field image), or as the body with content type image/*, "
            'application/dicom or application/octet-stream; or application/json with an "image_id" to search with'
        )
    if not all(files):
        raise InvalidInput("the image sent is empty")
    if sum(map(len, files)) > settings.max_upload_bytes:
        raise RequestEntityTooLarge
    return files


def _file_parts() -> list[bytes]:
    others = sorted(set(request.files) - {"image"})
    if others:
        raise InvalidInput(f"{others[0]}: there is no such file field; the image goes into the field image")
    files = request.files.getlist("image")
    if not files and "image" in request.form:
        raise InvalidInput("image: must be sent as a file, for instance with curl -F image=@FILE")
    if not files:
        raise InvalidInput("image: a file is needed in this field")
    return [file.read() for file in files]
