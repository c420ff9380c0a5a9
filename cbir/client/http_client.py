"""Python client of the HTTP API: `pip install cbir[client]`.

with Client("http://127.0.0.1:8000") as client:
    for hit in client.search(Path("query.png"), k=5).results:
        print(hit.rank, hit.image_id, hit.score)
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict, TypeVar, Unpack
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from cbir.client import messages
from cbir.client.dicomweb_methods import DicomwebMethods, ImageData, read_files
from cbir.errors import CbirError, InvalidInput
from cbir.images import Region
from cbir.search import Answer

SECONDS = 60.0
FINAL_STATES = ("done", "cancelled", "failed")

Window = tuple[float, float]


class DecodeOptions(TypedDict, total=False):
    """Options for decoding a file.

    frame: number of the frame, from 1. region: part of the image, as x, y, width, height in pixels. window: center
    and width for a grey DICOM file.
    """

    frame: int | None
    region: Region | None
    window: Window | None


class IndexOptions(TypedDict, total=False):
    """Options of an indexing job.

    labels: path of a csv with labels on the server. duplicates: add images that are in the collection already.
    restore: add images that were deleted earlier. processes: number of processes; half the cores by default.
    """

    labels: str | None
    duplicates: bool
    restore: bool
    processes: int | None


Model = TypeVar("Model", bound=BaseModel)


class ServiceError(CbirError):
    """Problem response of the service.

    problem: its content (RFC 9457). retry_after: seconds after which the request may be repeated; None if that
    will not help.
    """

    def __init__(self, problem: messages.ProblemDetails, retry_after: int | None = None) -> None:
        super().__init__(f"{problem.title} ({problem.status}): {problem.detail}")
        self.problem = problem
        self.retry_after = retry_after


class Client(DicomwebMethods):
    """Client of one service. Thread-safe.

    Every method raises ServiceError for a problem response and httpx.TransportError without a response.
    """

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

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.http.close()

    # Searching

    def search(
        self,
        query: str | ImageData | Sequence[ImageData] | None = None,
        *,
        examples: Sequence[str] = (),
        feedback: Mapping[str, float] | None = None,
        k: int | None = None,
        rerank: str | None = None,
        where: Sequence[str] = (),
        exclude_patient: str | None = None,
        frame: int | None = None,
        region: Region | None = None,
        window: Window | None = None,
    ) -> Answer:
        """Search for images similar to one or several examples.

        Parameters
        ----------
        query : str, Path, bytes or sequence, optional
            Image id, file, content of a file, or several files; None if all examples are in the collection.
        examples : sequence of str
            Ids of further example images; examples are not among the results.
        feedback : mapping of str to float, optional
            Relevance from -1 to 1 by image id, for relevance feedback.
        k : int, optional
            Number of results.
        rerank : str, optional
            Re-ranking method.
        where : sequence of str
            Label conditions, for instance "modality=CT".
        exclude_patient : str, optional
            Patient whose images are left out.
        frame : int, optional
            Frame of a file, from 1.
        region : (int, int, int, int), optional
            Part to search with: x, y, width, height in pixels.
        window : (float, float), optional
            Center and width for a grey DICOM file.

        Raises
        ------
        InvalidInput
            If frame or window are given for an image id: it is searched with as it was indexed.
        """
        fields = _without_none(
            k=k,
            rerank=rerank,
            exclude_patient=exclude_patient,
            where=list(where) or None,
            examples=list(examples) or None,
        )
        judgements = [
            {"image_id": image_id, "relevance": relevance} for image_id, relevance in (feedback or {}).items()
        ]
        if isinstance(query, str) or query is None:
            if frame is not None or window is not None:
                raise InvalidInput("frame, window: only of a file; an image of the collection has its own")
            body = fields | _without_none(image_id=query, region=region, feedback=judgements or None)
            return self._fetch(Answer, "POST", "/v1/search", json=body)
        if judgements:
            fields["feedback"] = json.dumps(judgements)
        form = fields | _decode_form(frame=frame, region=region, window=window)
        return self._fetch(Answer, "POST", "/v1/search", files=_multipart(query), data=form)

    def render(self, query: ImageData, **options: Unpack[DecodeOptions]) -> bytes:
        """Return the image in a file, or in its content, as PNG, decoded as for a search with `DecodeOptions`."""
        form = _decode_form(**options)
        return self._request(
            "POST", "/v1/render", with_collection=False, files=_multipart(query), data=form
        ).content

    def grade(
        self,
        query: str | ImageData,
        *,
        grade_column: str | None = None,
        exclude_patient: str | None = None,
        **options: Unpack[DecodeOptions],
    ) -> messages.Grade:
        """Grade an image by the graded images of the collection.

        Parameters
        ----------
        query : str, Path or bytes
            Image id, file, or content of a file.
        grade_column : str, optional
            Label with the grades; None for the only one with a fitted ranker.
        exclude_patient : str, optional
            Patient whose images are left out; only for files.
        **options
            See `DecodeOptions`; only for files.

        Raises
        ------
        InvalidInput
            If an option for files is given for an image id.
        """
        form = _without_none(exclude_patient=exclude_patient) | _decode_form(**options)
        column = _without_none(grade_column=grade_column)
        if not isinstance(query, str):
            return self._fetch(
                messages.Grade, "POST", "/v1/grade", files=_multipart(query), data=column | form
            )
        if form:
            raise InvalidInput(f"{next(iter(form))}: only of a file; an image of the collection has its own")
        return self._fetch(messages.Grade, "POST", "/v1/grade", json={"image_id": query} | column)

    # Images

    def images(self, where: Sequence[str] = (), *, limit: int = 100) -> Iterator[messages.ImageRecord]:
        """Iterate over the images that meet all conditions `where`, oldest first, `limit` per request."""
        yield from self._all_items(messages.ImagePage, "/v1/images", {"limit": limit, "where": list(where)})

    def image_page(
        self, where: Sequence[str] = (), *, limit: int = 100, cursor: str | None = None
    ) -> messages.ImagePage:
        """Return one page of the images.

        Parameters
        ----------
        where : sequence of str
            Label conditions.
        limit : int
            Maximum number of images.
        cursor : str, optional
            `next` of the previous page.
        """
        params = {"limit": limit, "where": list(where)} | ({"cursor": cursor} if cursor else {})
        return self._fetch(messages.ImagePage, "GET", "/v1/images", params=params)

    def image(self, image_id: str) -> messages.ImageRecord:
        """Return the record of an image."""
        return self._fetch(messages.ImageRecord, "GET", _image_path(image_id))

    def add(
        self,
        images: ImageData | Sequence[ImageData],
        labels: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
        *,
        duplicates: bool = False,
        restore: bool = False,
        idempotency_key: str | None = None,
    ) -> messages.AddedImages:
        """Add images; they are on disk when this returns.

        Parameters
        ----------
        images : Path, bytes or sequence
            Files or their content.
        labels : mapping or sequence of mappings, optional
            Labels of all files, or of each file.
        duplicates : bool
            Add images that are in the collection already.
        restore : bool
            Add images that were deleted earlier.
        idempotency_key : str, optional
            Key with which the request can be repeated safely.
        """
        form = {"duplicates": json.dumps(duplicates), "restore": json.dumps(restore)}
        if labels:
            form["labels"] = json.dumps(
                dict(labels) if isinstance(labels, Mapping) else [dict(of_file) for of_file in labels]
            )
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return self._fetch(
            messages.AddedImages, "POST", "/v1/images", files=_multipart(images), data=form, headers=headers
        )

    def set_labels(
        self, image_id: str, labels: Mapping[str, str | None], *, if_match: str | None = None
    ) -> messages.ImageRecord:
        """Set labels of an image.

        Parameters
        ----------
        image_id : str
            Id of the image.
        labels : mapping
            New values; None removes a label.
        if_match : str, optional
            `etag` of the state that is changed; the request fails if the image has changed since.
        """
        headers = {"If-Match": if_match} if if_match else {}
        body = {"labels": dict(labels)}
        return self._fetch(messages.ImageRecord, "PATCH", _image_path(image_id), json=body, headers=headers)

    def etag(self, image_id: str) -> str:
        """Return the ETag of an image's current state, for `set_labels`."""
        etag: str = self._request("GET", _image_path(image_id)).headers["ETag"]
        return etag

    def delete(self, image_id: str) -> None:
        """Delete an image permanently."""
        self._request("DELETE", _image_path(image_id))

    def thumbnail(self, image_id: str) -> bytes:
        """Return a JPEG with a longer side of at most 256 pixels."""
        return self._request("GET", f"{_image_path(image_id)}/thumbnail").content

    def picture(self, image_id: str, *, region: Region | None = None) -> bytes:
        """Return a PNG with a longer side of at most 1024 pixels, or the thumbnail if nothing larger is stored.

        `region` selects a part of the image: (x, y, width, height) in its pixels.
        """
        params = _decode_form(region=region)
        return self._request("GET", f"{_image_path(image_id)}/picture", params=params).content

    def original(self, image_id: str) -> bytes:
        """Return the original file of an image, if it is stored."""
        return self._request("GET", f"{_image_path(image_id)}/original").content

    # The collection

    def collections(self) -> messages.CollectionNames:
        """Return the names of the collections."""
        return self._fetch(messages.CollectionNames, "GET", "/v1/collections", with_collection=False)

    def collection(self) -> messages.CollectionInfo:
        """Return facts about the collection."""
        return self._fetch(messages.CollectionInfo, "GET", "/v1/collection")

    def profile(self) -> messages.ProfileInfo:
        """Return the profile: descriptor, weights and re-ranking settings."""
        return self._fetch(messages.ProfileInfo, "GET", "/v1/collection/profile")

    def statistics(self) -> messages.CollectionStatistics:
        """Return counts of images, patients, formats and labels."""
        return self._fetch(messages.CollectionStatistics, "GET", "/v1/collection/statistics")

    def history(self, *, limit: int = 100) -> Iterator[messages.ChangeRecord]:
        """Iterate over the changes of the collection, newest first, `limit` per request."""
        yield from self._all_items(messages.ChangePage, "/v1/collection/history", {"limit": limit})

    # Jobs and patients

    def index(self, folder: str, **options: Unpack[IndexOptions]) -> messages.JobInfo:
        """Start a job that indexes a folder of the server, below one of index_roots; see `IndexOptions`."""
        body = {"folder": folder, "collection": self.collection_name, **options}
        return self._fetch(messages.JobInfo, "POST", "/v1/jobs", with_collection=False, json=body)

    def jobs(self) -> list[messages.JobInfo]:
        """Return the jobs since the service started, newest first."""
        return self._fetch(messages.JobList, "GET", "/v1/jobs", with_collection=False).items

    def job(self, name: str) -> messages.JobInfo:
        """Return the state of a job."""
        return self._fetch(messages.JobInfo, "GET", f"/v1/jobs/{quote(name, safe='')}", with_collection=False)

    def cancel(self, name: str) -> messages.JobInfo:
        """Cancel a job; images indexed so far stay."""
        return self._fetch(
            messages.JobInfo, "POST", f"/v1/jobs/{quote(name, safe='')}/cancel", with_collection=False
        )

    def wait(self, name: str, *, seconds: float = 3600.0, every: float = 0.5) -> messages.JobInfo:
        """Wait for a job to end.

        Parameters
        ----------
        name : str
            Name of the job.
        seconds : float
            Time limit.
        every : float
            Polling interval in seconds.

        Raises
        ------
        TimeoutError
            If the job has not ended within the time limit.
        """
        deadline = time.monotonic() + seconds
        while (job := self.job(name)).state not in FINAL_STATES:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the job {name} has not ended within {seconds:g} seconds")
            time.sleep(every)
        return job

    def erase_patient(self, key: str) -> messages.Erased:
        """Erase all data of a patient, by the patient key of the images."""
        return self._fetch(messages.Erased, "DELETE", f"/v1/patients/{quote(key, safe='')}")

    # The service

    def ready(self) -> messages.Readiness:
        """Return the readiness of the first collection for searching."""
        return self._fetch(messages.Readiness, "GET", "/readyz", with_collection=False)

    def health(self) -> messages.Health:
        """Return "ok" if the service answers."""
        return self._fetch(messages.Health, "GET", "/healthz", with_collection=False)

    def alive(self) -> messages.Health:
        """Return "ok" if the service answers; if this fails, restart the service."""
        return self._fetch(messages.Health, "GET", "/livez", with_collection=False)

    def metrics(self) -> str:
        """Return counters and timings in the Prometheus text format."""
        return self._request("GET", "/metrics", with_collection=False).text

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI 3.1 description of the API."""
        document: dict[str, Any] = self._request("GET", "/openapi.json", with_collection=False).json()
        return document

    def _all_items(
        self, model: type[messages.ImagePage | messages.ChangePage], path: str, params: dict[str, Any]
    ) -> Iterator[Any]:
        """Iterate over the items of all pages."""
        while True:
            page = self._fetch(model, "GET", path, params=params)
            yield from page.items
            if page.next is None:
                return
            params["cursor"] = page.next

    def _fetch(self, model: type[Model], method: str, path: str, **options: Any) -> Model:
        return model.model_validate_json(self._request(method, path, **options).content)

    def _request(
        self, method: str, path: str, *, with_collection: bool = True, **options: Any
    ) -> httpx.Response:
        """Send a request; `with_collection` adds the name of the collection."""
        if with_collection and self.collection_name:
            options["params"] = {**options.get("params", {}), "collection": self.collection_name}
        response = self.http.request(method, path, **options)
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


def _without_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _decode_form(**options: Unpack[DecodeOptions]) -> dict[str, Any]:
    """Return the form fields of decoding; lists of numbers are separated by commas."""
    return {
        name: ",".join(map(str, value)) if isinstance(value, Sequence) else value
        for name, value in _without_none(**options).items()
    }


def _image_path(image_id: str) -> str:
    return f"/v1/images/{quote(image_id, safe='')}"


def _multipart(images: ImageData | Sequence[ImageData]) -> list[tuple[str, tuple[str, bytes]]]:
    """Return multipart fields without file names, which may be names of patients."""
    return [("image", ("image", data)) for data in read_files(images)]
