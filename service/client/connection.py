"""Connection to a service: requests, problem responses, and the parts of a request that several methods send."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypedDict, TypeVar, Unpack
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from cbir.errors import CbirError, InvalidInput, NotFound, UnreadableImage
from cbir.search.search_options import image_id_of, is_array, list_examples
from service.client import messages
from service.client.collection_messages import CollectionNames, path_in_collection

SECONDS = 60.0
JSON = {"Content-Type": "application/json"}
ID_FORM = re.compile(r"[\w-]+")
ImageData = str | os.PathLike[str] | bytes
Region = tuple[int, int, int, int]  # as of cbir.images, which takes a second to import
Window = tuple[float, float]
Model = TypeVar("Model", bound=BaseModel)


class DecodeOptions(TypedDict, total=False):
    """Options for decoding a file.

    frame: number of the frame, from 1. region: part of the image, as x, y, width, height in pixels. window: center
    and width for a grey DICOM file.
    """

    frame: int | None
    region: Region | None
    window: Window | None


class ServiceError(CbirError):
    """Problem response of the service.

    problem: its content (RFC 9457). retry_after: seconds after which the request may be repeated; None if that
    will not help.
    """

    def __init__(self, problem: messages.ProblemDetails, retry_after: int | None = None) -> None:
        super().__init__(f"{problem.title} ({problem.status}): {problem.detail}")
        self.problem = problem
        self.retry_after = retry_after


class ServiceUnreachable(CbirError, httpx.ConnectError):
    """No service answers at the address."""


class ServiceConnection:
    """HTTP connection to one service. Thread-safe."""

    def __init__(
        self,
        address: str,
        token: str | None = None,
        collection: str | None = None,
        *,
        timeout: float = SECONDS,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Connect to a service when the first request is sent.

        Parameters
        ----------
        address : str
            URL of the service, for instance "http://127.0.0.1:8000".
        token : str, optional
            Bearer token.
        collection : str, optional
            Name of the collection; None for the service's first one.
        timeout : float
            Seconds to wait for a response.
        transport : httpx.BaseTransport, optional
            Replacement for the network.
        """
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.collection_name = collection
        self.http = httpx.Client(
            base_url=address, headers=headers, timeout=timeout, transport=transport, trust_env=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.http.close()

    def _name_of_collection(self) -> str:
        """Return the name of the collection; if none was given the service's first one, requested once."""
        if not self.collection_name:
            names = self._fetch(CollectionNames, "GET", "/v1/collections", with_collection=False)
            self.collection_name = names.default
        return self.collection_name

    def _as_parameter(self) -> dict[str, Any]:
        """Return the options of a request whose parameter names the collection, if one was given."""
        return {"with_collection": False, "params": without_none(collection=self.collection_name)}

    def _all_items(
        self, model: Any, path: str, params: dict[str, Any], with_collection: bool = True
    ) -> Iterator[Any]:
        """Iterate over the items of all pages of `model`, which has `items` and `next`."""
        while True:
            page = self._fetch(model, "GET", path, params=params, with_collection=with_collection)
            yield from page.items
            if page.next is None:
                return
            params["cursor"] = page.next

    def _fetch(self, model: type[Model], method: str, path: str, **options: Any) -> Model:
        return model.model_validate_json(self._request(method, path, **options).content)

    def _request(
        self, method: str, path: str, *, with_collection: bool = True, **options: Any
    ) -> httpx.Response:
        """Send a request; `with_collection` for operations on the collection, whose address names it."""
        if with_collection:
            path = path_in_collection(path, self._name_of_collection())
        try:
            response = self.http.request(method, path, **options)
        except httpx.ConnectError as error:
            raise ServiceUnreachable(f"{self.http.base_url} cannot be reached: {error}") from error
        if response.is_success:
            return response
        wait = response.headers.get("Retry-After", "")
        raise ServiceError(_problem(response), int(wait) if wait.isdigit() else None)


def _problem(response: httpx.Response) -> messages.ProblemDetails:
    try:
        return messages.ProblemDetails.model_validate_json(response.content)
    except ValueError:  # not from the service but from a proxy
        return messages.ProblemDetails(
            type="about:blank",
            title=response.reason_phrase,
            status=response.status_code,
            detail=response.text[:200] or response.reason_phrase,
        )


def without_none(**values: Any) -> dict[str, Any]:
    """Return the values that are not None, by name."""
    return {name: value for name, value in values.items() if value is not None}


def write_json(value: Any) -> str:
    """Return a value as JSON; numbers of NumPy too. Raises InvalidInput for NaN and infinity."""
    try:
        return json.dumps(value, default=lambda scalar: scalar.item(), allow_nan=False)
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInput(f"a parameter cannot be sent as JSON: {error}") from error


def id_to_send(example: Any) -> str | None:
    """Return the image id that an example stands for, None for another example.

    Raises NotFound for a text that has not the form of an id: a mistyped path may name a patient.
    """
    image_id = image_id_of(example)
    if image_id is not None and not ID_FORM.fullmatch(image_id):
        raise NotFound(f"{image_id!r} is neither a file nor an image id")
    return image_id


def decode_form(**options: Unpack[DecodeOptions]) -> dict[str, Any]:
    """Return the form fields of decoding; lists of numbers are separated by commas."""
    return {
        name: ",".join(map(str, value)) if isinstance(value, Sequence) else value
        for name, value in without_none(**options).items()
    }


def assignments(parameters: Mapping[str, float | str] | None) -> list[str] | None:
    """Return NAME=VALUE of parameters of a re-ranker, for forms and addresses; None without any."""
    return [f"{name}={value}" for name, value in parameters.items()] if parameters else None


def image_path(image_id: str) -> str:
    """Return the path of an image in the API."""
    return f"/v1/images/{quote(image_id, safe='')}"


def multipart(images: Any) -> list[tuple[str, tuple[str, bytes]]]:
    """Return multipart fields without file names, which may be names of patients."""
    return [("image", ("image", data)) for data in read_files(images)]


def read_files(images: Any) -> list[bytes]:
    """Return the contents of one or several files: paths, contents, or arrays of samples, which become PNG files."""
    return [_read_file(file) for file in list_examples(images)]


def _read_file(file: Any) -> bytes:
    if isinstance(file, bytes | bytearray):
        return bytes(file)
    if isinstance(file, str | os.PathLike):
        try:
            return Path(file).read_bytes()
        except OSError as error:
            raise UnreadableImage(f"{file} cannot be read: {error.strerror}") from error
    if not is_array(file):
        raise InvalidInput(f"an image is a file, its content or an array, not {type(file).__name__}")
    from cbir.images import from_array
    from cbir.images.scaling import encode_image

    return encode_image(from_array(file).pixels, ".png")
