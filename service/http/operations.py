"""Declarations of endpoints for the OpenAPI document: parameters, bodies, responses."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from flask import Response
from pydantic import BaseModel

View = TypeVar("View", bound=Callable[..., Any])
FILE = "a file"  # binary content of a body
IMAGE_FILES = {"image/*": FILE, "application/dicom": FILE, "application/octet-stream": FILE}
SERIES_FILES = {"application/zip": FILE, "application/gzip": FILE}


@dataclass(frozen=True)
class Operation:
    """OpenAPI declaration of an endpoint.

    name: the operationId. responses: model or media type by status. query: parameters in the query string. body:
    model or FILE by media type. form: fields of a multipart body besides its files; several_files: it may hold more
    than one. headers: request headers that are used. problems: statuses besides those of every endpoint, and those
    that parameters, bodies and `confirm` imply. python: a line of the Python client that does the same.
    collection_in_path: False if the parameter `collection` does not make it an operation on the collection. confirm:
    what a page asks before it sends the request, for endpoints that change a collection. examples: bodies of
    responses by status, where they do not follow from the model. other_media: media types that a file with status 200
    may have in place of the one in `responses`.
    """

    name: str
    responses: dict[int, type[BaseModel] | str | None]
    query: type[BaseModel] | None = None
    body: dict[str, type[BaseModel] | str] = field(default_factory=dict)
    form: type[BaseModel] | None = None
    several_files: bool = False
    headers: tuple[str, ...] = ()
    problems: tuple[int, ...] = ()
    python: str = ""
    collection_in_path: bool = True
    confirm: str = ""
    examples: dict[int, Any] = field(default_factory=dict)
    other_media: tuple[str, ...] = ()

    @property
    def body_models(self) -> list[type[BaseModel]]:
        """Models of bodies, that of the form too."""
        return [model for model in (*self.body.values(), self.form) if isinstance(model, type)]


OPERATION = "cbir_operation"


def operation(
    name: str, responses: dict[int, type[BaseModel] | str | None], **options: Any
) -> Callable[[View], View]:
    """Attach an Operation to a view, whose docstring becomes the summary and description.

    name: the operationId. responses: model or media type by status. options: further fields of Operation.
    """

    def attach(view: View) -> View:
        setattr(view, OPERATION, Operation(name, responses, **options))
        return view

    return attach


def json_response(model: BaseModel, status: int = 200) -> Response:
    """Return `model` as a JSON response with `status`."""
    return Response(model.model_dump_json(), status, mimetype="application/json")


def operation_of(view: Callable[..., Any]) -> Operation | None:
    """Return the Operation of `view`, None for pages."""
    return cast(Operation | None, getattr(view, OPERATION, None))
