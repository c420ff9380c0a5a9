"""What an address of the API takes and answers, said once beside its view, for the API's description."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

View = TypeVar("View", bound=Callable[..., Any])
FILE = "a file"  # stands for bytes in a body


@dataclass(frozen=True)
class Operation:
    """name: the client's method.

    answers: by status, a model or a media type. query: parameters in the query string. body: by media type, a
    model or FILE. form: fields beside the files of a multipart body, files: the name of their field. headers:
    that it heeds. problems: statuses besides those that every address may answer.
    """

    name: str
    answers: dict[int, type[BaseModel] | str | None]
    query: type[BaseModel] | None = None
    body: dict[str, type[BaseModel] | str] = field(default_factory=dict)
    form: type[BaseModel] | None = None
    several_files: bool = False
    headers: tuple[str, ...] = ()
    problems: tuple[int, ...] = ()


OPERATION = "cbir_operation"


def operation(
    name: str, answers: dict[int, type[BaseModel] | str | None], **more: Any
) -> Callable[[View], View]:
    """Attach an Operation to a view; its docstring becomes the summary and the description."""

    def attach(view: View) -> View:
        setattr(view, OPERATION, Operation(name, answers, **more))
        return view

    return attach


def of(view: Callable[..., Any]) -> Operation | None:
    """The Operation of a view; None for pages."""
    found: Operation | None = getattr(view, OPERATION, None)
    return found
