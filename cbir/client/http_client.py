"""A client of the service, with the names of its API: `pip install cbir[client]`.

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

from cbir.client.dicomweb_methods import DicomwebMethods
from cbir.client.messages import (
    AddedImages,
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
from cbir.client.messages import ChangePage as _ChangePage
from cbir.errors import CbirError, InvalidInput
from cbir.images import Region
from cbir.search import Answer

SECONDS = 60.0
ENDED = ("done", "cancelled", "failed")

Data = Path | bytes
Window = tuple[float, float]
Model = TypeVar("Model", bound=BaseModel)


class ServiceError(CbirError):
    """The service answered with a problem.

    problem: what it said (RFC 9457). retry_after: seconds after which the request may be sent again, None where
    that will not help.
    """

    def __init__(self, problem: ProblemDetails, retry_after: int | None = None) -> None:
        super().__init__(f"{problem.title} ({problem.status}): {problem.detail}")
        self.problem = problem
        self.retry_after = retry_after


class Client(DicomwebMethods):
    """Asks a service. Thread-safe. Every method raises ServiceError where the service answers with a problem, and
    httpx.TransportError where it does not answer.
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
        """address: of the service, for instance "http://127.0.0.1:8000". collection: None for its first one.

        timeout: seconds to wait for an answer. transport: instead of the network.
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
        """Let go of the connections."""
        self.http.close()

    # Searching

    def search(
        self,
        query: str | Data | Sequence[Data] | None = None,
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
        """Images like one: an image id, a file, or the bytes of one; or like several.

        query: several files or their bytes, or None, where the examples are of the collection alone. examples: ids of
        further ones; all examples are left out. feedback: relevance from -1 to 1 by image id, which is learnt from.
        frame: of a file, counted from 1. region: (x, y, width, height) in pixels, to search with that part.
        window: (center, width) in the values of a grey DICOM file. Raises InvalidInput where frame or window are
        given for an image of the collection, which is searched with as it was indexed.
        """
        wanted = _given(k=k, rerank=rerank, exclude_patient=exclude_patient)
        if where:
            wanted["where"] = list(where)
        said = [{"image_id": name, "relevance": relevance} for name, relevance in (feedback or {}).items()]
        if isinstance(query, str) or query is None:
            wanted |= ({"examples": list(examples)} if examples else {}) | (
                {"feedback": said} if said else {}
            )
            if frame is not None or window is not None:
                raise InvalidInput("frame, window: only of a file; an image of the collection has its own")
            body = wanted | _given(image_id=query, region=region)
            return self._model(Answer, "POST", "/v1/search", json=body)
        data = wanted | _given(frame=frame, region=_commas(region), window=_commas(window))
        data |= ({"examples": list(examples)} if examples else {}) | (
            {"feedback": json.dumps(said)} if said else {}
        )
        files = [query] if isinstance(query, Path | bytes) else list(query)
        return self._model(Answer, "POST", "/v1/search", files=_files(files), data=data)

    def render(
        self,
        query: Data,
        *,
        frame: int | None = None,
        region: Region | None = None,
        window: Window | None = None,
    ) -> bytes:
        """An image as a PNG, as it is decoded for a search; frame, region, window as there."""
        data = _given(frame=frame, region=_commas(region), window=_commas(window))
        return self._ask("POST", "/v1/render", named=False, files=_files([query]), data=data).content

    def grade(
        self,
        query: str | Data,
        *,
        grade_column: str | None = None,
        exclude_patient: str | None = None,
        frame: int | None = None,
        region: Region | None = None,
        window: Window | None = None,
    ) -> Grade:
        """The grade of an image among the graded ones: an image id, a file, or the bytes of one.

        grade_column: None for the only label that grades were learnt from. frame, region, window, exclude_patient: of
        a file alone, as in `search`; raises InvalidInput for an image of the collection.
        """
        of_file = _given(exclude_patient=exclude_patient, frame=frame, region=region, window=window)
        if isinstance(query, str):
            if of_file:
                raise InvalidInput(
                    f"{next(iter(of_file))}: only of a file; an image of the collection has its own"
                )
            body = {"image_id": query} | _given(grade_column=grade_column)
            return self._model(Grade, "POST", "/v1/grade", json=body)
        data = _given(
            grade_column=grade_column,
            exclude_patient=exclude_patient,
            frame=frame,
            region=_commas(region),
            window=_commas(window),
        )
        return self._model(Grade, "POST", "/v1/grade", files=_files([query]), data=data)

    # Images

    def images(self, where: Sequence[str] = (), *, limit: int = 100) -> Iterator[ImageRecord]:
        """All images for which every condition holds, in the order they came, `limit` in a request."""
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
        """Some of the images. cursor: `next` of the page before."""
        wanted = {"limit": limit, "where": list(where)} | ({"cursor": cursor} if cursor else {})
        return self._model(ImagePage, "GET", "/v1/images", params=wanted)

    def image(self, image_id: str) -> ImageRecord:
        """What the collection knows of an image."""
        return self._model(ImageRecord, "GET", _image(image_id))

    def add(
        self,
        images: Data | Sequence[Data],
        labels: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
        *,
        duplicates: bool = False,
        restore: bool = False,
        idempotency_key: str | None = None,
    ) -> AddedImages:
        """Add one file or many; they are on the disk when this returns. labels: for all, or for each file."""
        files = [images] if isinstance(images, Path | bytes) else list(images)
        data = {"duplicates": json.dumps(duplicates), "restore": json.dumps(restore)}
        if labels:
            given = dict(labels) if isinstance(labels, Mapping) else [dict(one) for one in labels]
            data["labels"] = json.dumps(given)
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return self._model(AddedImages, "POST", "/v1/images", files=_files(files), data=data, headers=headers)

    def set_labels(
        self, image_id: str, labels: Mapping[str, str | None], *, if_match: str | None = None
    ) -> ImageRecord:
        """Set labels, and take away those that are None. if_match: the image's `etag` as it was last seen."""
        headers = {"If-Match": if_match} if if_match else {}
        body = {"labels": dict(labels)}
        return self._model(ImageRecord, "PATCH", _image(image_id), json=body, headers=headers)

    def etag(self, image_id: str) -> str:
        """The present state of an image, for `set_labels`."""
        return self._ask("GET", _image(image_id)).headers["ETag"]

    def delete(self, image_id: str) -> None:
        """Delete an image for good."""
        self._ask("DELETE", _image(image_id))

    def thumbnail(self, image_id: str) -> bytes:
        """A JPEG, its longer side at most 256 pixels."""
        return self._ask("GET", f"{_image(image_id)}/thumbnail").content

    def picture(self, image_id: str, *, region: Region | None = None) -> bytes:
        """A PNG, its longer side at most 1024 pixels; the JPEG of `thumbnail` where nothing larger is kept.

        region: (x, y, width, height) in pixels of the image, to see that part alone.
        """
        wanted = _given(region=_commas(region))
        return self._ask("GET", f"{_image(image_id)}/picture", params=wanted).content

    def original(self, image_id: str) -> bytes:
        """The file that an image was sent as, where it is kept."""
        return self._ask("GET", f"{_image(image_id)}/original").content

    # The collection

    def collections(self) -> CollectionNames:
        """The names of the collections."""
        return self._model(CollectionNames, "GET", "/v1/collections", named=False)

    def collection(self) -> CollectionInfo:
        """What the collection holds and how it was made."""
        return self._model(CollectionInfo, "GET", "/v1/collection")

    def profile(self) -> ProfileInfo:
        """How images become vectors."""
        return self._model(ProfileInfo, "GET", "/v1/collection/profile")

    def statistics(self) -> CollectionStatistics:
        """Counts of images, patients, formats and labels."""
        return self._model(CollectionStatistics, "GET", "/v1/collection/statistics")

    def history(self, *, limit: int = 100) -> Iterator[ChangeRecord]:
        """What was done to the collection, the newest first, `limit` in a request."""
        wanted: dict[str, Any] = {"limit": limit}
        while True:
            page = self._model(_ChangePage, "GET", "/v1/collection/history", params=wanted)
            yield from page.items
            if page.next is None:
                return
            wanted["cursor"] = page.next

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
        """Index a folder of the server. labels: path of a csv there."""
        body = {
            "folder": folder,
            "collection": self.collection_name,
            "labels": labels,
            "duplicates": duplicates,
            "restore": restore,
            "processes": processes,
        }
        return self._model(JobInfo, "POST", "/v1/jobs", named=False, json=body)

    def jobs(self) -> list[JobInfo]:
        """The jobs since the service started, the newest first."""
        return self._model(JobList, "GET", "/v1/jobs", named=False).items

    def job(self, name: str) -> JobInfo:
        """How far a job has come."""
        return self._model(JobInfo, "GET", f"/v1/jobs/{quote(name, safe='')}", named=False)

    def cancel(self, name: str) -> JobInfo:
        """End a job; what it has indexed stays."""
        return self._model(JobInfo, "POST", f"/v1/jobs/{quote(name, safe='')}/cancel", named=False)

    def wait(self, name: str, *, seconds: float = 3600.0, every: float = 0.5) -> JobInfo:
        """Wait for a job to end; raises TimeoutError after `seconds`."""
        until = time.monotonic() + seconds
        while (job := self.job(name)).state not in ENDED:
            if time.monotonic() > until:
                raise TimeoutError(f"the job {name} has not ended within {seconds:g} seconds")
            time.sleep(every)
        return job

    def erase_patient(self, key: str) -> Erased:
        """Remove every trace of a patient, by the patient key of the images."""
        return self._model(Erased, "DELETE", f"/v1/patients/{quote(key, safe='')}")

    # The service

    def ready(self) -> Readiness:
        """Whether the first collection can be searched."""
        return self._model(Readiness, "GET", "/readyz", named=False)

    def health(self) -> Health:
        """The service answers."""
        return self._model(Health, "GET", "/healthz", named=False)

    def alive(self) -> Health:
        """The service answers; where this fails it should be started anew."""
        return self._model(Health, "GET", "/livez", named=False)

    def metrics(self) -> str:
        """Counts and times in Prometheus' text format."""
        return self._ask("GET", "/metrics", named=False).text

    def openapi(self) -> dict[str, Any]:
        """The description of the API, OpenAPI 3.1."""
        found: dict[str, Any] = self._ask("GET", "/openapi.json", named=False).json()
        return found

    def _model(self, model: type[Model], method: str, path: str, **given: Any) -> Model:
        return model.model_validate_json(self._ask(method, path, **given).content)

    def _ask(self, method: str, path: str, *, named: bool = True, **given: Any) -> httpx.Response:
        if named and self.collection_name:
            given["params"] = {**given.get("params", {}), "collection": self.collection_name}
        answer = self.http.request(method, path, **given)
        if answer.is_success:
            return answer
        wait = answer.headers.get("Retry-After", "")
        raise ServiceError(_problem(answer), int(wait) if wait.isdigit() else None)


def _problem(answer: httpx.Response) -> ProblemDetails:
    try:
        return ProblemDetails.model_validate_json(answer.content)
    except ValueError:  # of something that stands between
        said = answer.text[:200] or answer.reason_phrase
        return ProblemDetails(
            type="about:blank", title=answer.reason_phrase, status=answer.status_code, detail=said
        )


def _given(**wanted: Any) -> dict[str, Any]:
    return {name: value for name, value in wanted.items() if value is not None}


def _commas(numbers: Sequence[float] | None) -> str | None:
    return None if numbers is None else ",".join(map(str, numbers))


def _image(image_id: str) -> str:
    return f"/v1/images/{quote(image_id, safe='')}"


def _files(images: Sequence[Data]) -> list[tuple[str, tuple[str, bytes]]]:
    """Without the files' names, which may be patients'."""
    return [("image", ("image", one if isinstance(one, bytes) else one.read_bytes())) for one in images]
