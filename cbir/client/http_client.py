"""Python client of the HTTP API: `pip install cbir[client]`.

with Client("http://127.0.0.1:8000") as client:
    for hit in client.search(Path("query.png"), k=5).results:
        print(hit.rank, hit.image_id, hit.score)
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from cbir.client.dicomweb_methods import DicomwebMethods, ImageData, read_data
from cbir.client.messages import (
    AddedImages,
    ChangePage,
    ChangeRecord,
    CollectionInfo,
    CollectionNames,
    CollectionStatistics,
    Erased,
    Grade,
    Health,
    ImagePage,
    ImageRecord,
    JobInfo,
    JobList,
    ProblemDetails,
    ProfileInfo,
    Readiness,
)
from cbir.errors import CbirError, InvalidInput
from cbir.images import Region
from cbir.search import Answer

SECONDS = 60.0
FINAL_STATES = ("done", "cancelled", "failed")

Window = tuple[float, float]
Model = TypeVar("Model", bound=BaseModel)


class ServiceError(CbirError):
    """Problem response of the service.

    problem: its content (RFC 9457). retry_after: seconds after which the request may be repeated; None if that
    will not help.
    """

    def __init__(self, problem: ProblemDetails, retry_after: int | None = None) -> None:
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
        fields = _without_none(k=k, rerank=rerank, exclude_patient=exclude_patient)
        if where:
            fields["where"] = list(where)
        if examples:
            fields["examples"] = list(examples)
        judgements = [
            {"image_id": image_id, "relevance": relevance} for image_id, relevance in (feedback or {}).items()
        ]
        if isinstance(query, str) or query is None:
            if frame is not None or window is not None:
                raise InvalidInput("frame, window: only of a file; an image of the collection has its own")
            if judgements:
                fields["feedback"] = judgements
            body = fields | _without_none(image_id=query, region=region)
            return self._request_model(Answer, "POST", "/v1/search", json=body)
        if judgements:
            fields["feedback"] = json.dumps(judgements)
        form = fields | _without_none(frame=frame, region=_commas(region), window=_commas(window))
        files = [query] if isinstance(query, Path | bytes) else list(query)
        return self._request_model(Answer, "POST", "/v1/search", files=_multipart(files), data=form)

    def render(
        self,
        query: ImageData,
        *,
        frame: int | None = None,
        region: Region | None = None,
        window: Window | None = None,
    ) -> bytes:
        """Return an image as PNG, decoded as for a search.

        Parameters
        ----------
        query : Path or bytes
            Image file or its content.
        frame, region, window : optional
            See `search`.
        """
        form = _without_none(frame=frame, region=_commas(region), window=_commas(window))
        return self._request(
            "POST", "/v1/render", with_collection=False, files=_multipart([query]), data=form
        ).content

    def grade(
        self,
        query: str | ImageData,
        *,
        grade_column: str | None = None,
        exclude_patient: str | None = None,
        frame: int | None = None,
        region: Region | None = None,
        window: Window | None = None,
    ) -> Grade:
        """Grade an image by the graded images of the collection.

        Parameters
        ----------
        query : str, Path or bytes
            Image id, file, or content of a file.
        grade_column : str, optional
            Label with the grades; None for the only one with a fitted ranker.
        exclude_patient, frame, region, window : optional
            See `search`; only for files.

        Raises
        ------
        InvalidInput
            If an option for files is given for an image id.
        """
        of_file = _without_none(exclude_patient=exclude_patient, frame=frame, region=region, window=window)
        if isinstance(query, str):
            if of_file:
                raise InvalidInput(
                    f"{next(iter(of_file))}: only of a file; an image of the collection has its own"
                )
            body = {"image_id": query} | _without_none(grade_column=grade_column)
            return self._request_model(Grade, "POST", "/v1/grade", json=body)
        form = _without_none(
            grade_column=grade_column,
            exclude_patient=exclude_patient,
            frame=frame,
            region=_commas(region),
            window=_commas(window),
        )
        return self._request_model(Grade, "POST", "/v1/grade", files=_multipart([query]), data=form)

    # Images

    def images(self, where: Sequence[str] = (), *, limit: int = 100) -> Iterator[ImageRecord]:
        """Iterate over the images that meet all conditions `where`, oldest first, `limit` per request."""
        cursor: str | None = None
        while True:
            page = self.image_page(where, limit=limit, cursor=cursor)
            yield from page.items
            if page.next is None:
                return
            cursor = page.next

    def image_page(
        self, where: Sequence[str] = (), *, limit: int = 100, cursor: str | None = None
    ) -> ImagePage:
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
        return self._request_model(ImagePage, "GET", "/v1/images", params=params)

    def image(self, image_id: str) -> ImageRecord:
        """Return the record of an image."""
        return self._request_model(ImageRecord, "GET", _image_path(image_id))

    def add(
        self,
        images: ImageData | Sequence[ImageData],
        labels: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
        *,
        duplicates: bool = False,
        restore: bool = False,
        idempotency_key: str | None = None,
    ) -> AddedImages:
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
        files = [images] if isinstance(images, Path | bytes) else list(images)
        form = {"duplicates": json.dumps(duplicates), "restore": json.dumps(restore)}
        if labels:
            form["labels"] = json.dumps(
                dict(labels) if isinstance(labels, Mapping) else [dict(of_file) for of_file in labels]
            )
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return self._request_model(
            AddedImages, "POST", "/v1/images", files=_multipart(files), data=form, headers=headers
        )

    def set_labels(
        self, image_id: str, labels: Mapping[str, str | None], *, if_match: str | None = None
    ) -> ImageRecord:
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
        return self._request_model(ImageRecord, "PATCH", _image_path(image_id), json=body, headers=headers)

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
        params = _without_none(region=_commas(region))
        return self._request("GET", f"{_image_path(image_id)}/picture", params=params).content

    def original(self, image_id: str) -> bytes:
        """Return the original file of an image, if it is stored."""
        return self._request("GET", f"{_image_path(image_id)}/original").content

    # The collection

    def collections(self) -> CollectionNames:
        """Return the names of the collections."""
        return self._request_model(CollectionNames, "GET", "/v1/collections", with_collection=False)

    def collection(self) -> CollectionInfo:
        """Return facts about the collection."""
        return self._request_model(CollectionInfo, "GET", "/v1/collection")

    def profile(self) -> ProfileInfo:
        """Return the profile: descriptor, weights and re-ranking settings."""
        return self._request_model(ProfileInfo, "GET", "/v1/collection/profile")

    def statistics(self) -> CollectionStatistics:
        """Return counts of images, patients, formats and labels."""
        return self._request_model(CollectionStatistics, "GET", "/v1/collection/statistics")

    def history(self, *, limit: int = 100) -> Iterator[ChangeRecord]:
        """Iterate over the changes of the collection, newest first, `limit` per request."""
        params: dict[str, Any] = {"limit": limit}
        while True:
            page = self._request_model(ChangePage, "GET", "/v1/collection/history", params=params)
            yield from page.items
            if page.next is None:
                return
            params["cursor"] = page.next

    # Jobs and patients

    def index(
        self,
        folder: str,
        *,
        labels: str | None = None,
        duplicates: bool = False,
        restore: bool = False,
        processes: int | None = None,
    ) -> JobInfo:
        """Start a job that indexes a folder of the server.

        Parameters
        ----------
        folder : str
            Path on the server, below one of the setting index_roots.
        labels : str, optional
            Path of a csv with labels on the server.
        duplicates : bool
            Add images that are in the collection already.
        restore : bool
            Add images that were deleted earlier.
        processes : int, optional
            Number of processes; None for half the cores.
        """
        body = {
            "folder": folder,
            "collection": self.collection_name,
            "labels": labels,
            "duplicates": duplicates,
            "restore": restore,
            "processes": processes,
        }
        return self._request_model(JobInfo, "POST", "/v1/jobs", with_collection=False, json=body)

    def jobs(self) -> list[JobInfo]:
        """Return the jobs since the service started, newest first."""
        return self._request_model(JobList, "GET", "/v1/jobs", with_collection=False).items

    def job(self, name: str) -> JobInfo:
        """Return the state of a job."""
        return self._request_model(JobInfo, "GET", f"/v1/jobs/{quote(name, safe='')}", with_collection=False)

    def cancel(self, name: str) -> JobInfo:
        """Cancel a job; images indexed so far stay."""
        return self._request_model(
            JobInfo, "POST", f"/v1/jobs/{quote(name, safe='')}/cancel", with_collection=False
        )

    def wait(self, name: str, *, seconds: float = 3600.0, every: float = 0.5) -> JobInfo:
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

    def erase_patient(self, key: str) -> Erased:
        """Erase all data of a patient, by the patient key of the images."""
        return self._request_model(Erased, "DELETE", f"/v1/patients/{quote(key, safe='')}")

    # The service

    def ready(self) -> Readiness:
        """Return the readiness of the first collection for searching."""
        return self._request_model(Readiness, "GET", "/readyz", with_collection=False)

    def health(self) -> Health:
        """Return "ok" if the service answers."""
        return self._request_model(Health, "GET", "/healthz", with_collection=False)

    def alive(self) -> Health:
        """Return "ok" if the service answers; if this fails, restart the service."""
        return self._request_model(Health, "GET", "/livez", with_collection=False)

    def metrics(self) -> str:
        """Return counters and timings in the Prometheus text format."""
        return self._request("GET", "/metrics", with_collection=False).text

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI 3.1 description of the API."""
        document: dict[str, Any] = self._request("GET", "/openapi.json", with_collection=False).json()
        return document

    def _request_model(self, model: type[Model], method: str, path: str, **options: Any) -> Model:
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


def _problem(response: httpx.Response) -> ProblemDetails:
    try:
        return ProblemDetails.model_validate_json(response.content)
    except ValueError:  # not from the service but from a proxy
        return ProblemDetails(
            type="about:blank",
            title=response.reason_phrase,
            status=response.status_code,
            detail=response.text[:200] or response.reason_phrase,
        )


def _without_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _commas(numbers: Sequence[float] | None) -> str | None:
    return None if numbers is None else ",".join(map(str, numbers))


def _image_path(image_id: str) -> str:
    return f"/v1/images/{quote(image_id, safe='')}"


def _multipart(images: Sequence[ImageData]) -> list[tuple[str, tuple[str, bytes]]]:
    """Return multipart fields without file names, which may be names of patients."""
    return [("image", ("image", read_data(image))) for image in images]
