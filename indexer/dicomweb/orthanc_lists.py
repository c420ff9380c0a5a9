"""Orthanc's own lists: of studies, series and instances, and of changes, which announce studies that are stable.

The first come from its index, so that they also have what DICOMweb cannot list because a file is lost.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import requests
from pydantic import BaseModel, Field, ValidationError

from cbir.errors import ArchiveFailed, CbirError
from indexer.dicomweb.archive_items import ArchiveStudy
from indexer.dicomweb.archive_requests import PAGE, BoundedSession, QidoResult, connection_reason, denied

TIMEOUT_SECONDS = 60.0
TAGS = {
    "StudyInstanceUID": "0020000D",
    "SeriesInstanceUID": "0020000E",
    "SOPInstanceUID": "00080018",
    "StudyDate": "00080020",
    "Modality": "00080060",
    "BodyPartExamined": "00180015",
    "PatientID": "00100020",
}
PARENTS = ("MainDicomTags", "PatientMainDicomTags")


class OrthancLists:
    """The lists of the Orthanc at `url`; of another server they are empty."""

    def __init__(self, url: str, session: BoundedSession) -> None:
        self.url = url
        self.session = session

    def find(self, level: str, query: Mapping[str, str]) -> Iterator[QidoResult]:
        """Yield the items of a level ("Study", "Series", "Instance") that match, as QIDO-RS does; none on a failure.

        `query`: values by keyword.
        """
        since, previous = 0, None
        while items := self._page({"Level": level, "Query": dict(query), "Limit": PAGE, "Since": since}):
            if items == previous:  # "Since" is ignored
                return
            yield from map(_as_qido_result, items)
            since, previous = since + len(items), items

    def _page(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        try:
            response = self.session.post(
                f"{self.url}/tools/find", data=json.dumps(request | {"Expand": True}), timeout=TIMEOUT_SECONDS
            )
            response.raise_for_status()
            items = json.loads(response.content)
        except (requests.RequestException, ValueError, CbirError):
            return []
        return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _as_qido_result(item: dict[str, Any]) -> QidoResult:
    values: dict[str, Any] = {}
    for part in PARENTS:
        tags = item.get(part)
        values |= tags if isinstance(tags, dict) else {}
    return {tag: {"Value": [values[name]]} for name, tag in TAGS.items() if name in values}


CHANGES_SECONDS = 30.0
CHANGES_PAGE = 100  # changes of one request
IDENTIFIER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{8}){4}")
RESTARTING = (502, 503, 504)  # of proxies, while nothing answers behind them


class OrthancChange(BaseModel):
    """A change of Orthanc's list."""

    number: int = Field(alias="Seq")
    kind: str = Field("", alias="ChangeType")
    identifier: str = Field("", alias="ID")


class ChangeList(BaseModel):
    """Orthanc's answer of /changes."""

    changes: list[OrthancChange] = Field([], alias="Changes")
    done: bool = Field(True, alias="Done")
    last: int = Field(0, alias="Last")


class AnnouncedStudy(BaseModel):
    """Orthanc's answer of /studies."""

    tags: dict[str, Any] = Field({}, alias="MainDicomTags")


OrthancAnswer = TypeVar("OrthancAnswer", bound=BaseModel)


class OrthancChanges:
    """Follows /changes of the Orthanc at `url`, starting with the next change."""

    def __init__(self, url: str, session: BoundedSession) -> None:
        self.url = url
        self.session = session
        self._since = self._last()
        self._unanswered: set[str] = set()  # identifiers of studies that Orthanc did not tell of

    def stable_studies(self) -> Iterator[ArchiveStudy]:
        """Yield the studies that became stable since the last call.

        All of them where Orthanc's list is shorter than before, as with a new or restored database.
        """
        if self._last() < self._since:
            self._since = 0
        for identifier in sorted(self._unanswered):
            self._unanswered.discard(identifier)
            yield from self._study(identifier)
        done = False
        while not done:
            start = self._since
            page = self._get(f"changes?since={start}&limit={CHANGES_PAGE}", ChangeList)
            for change in page.changes:
                if change.kind == "StableStudy" and IDENTIFIER.fullmatch(change.identifier):
                    yield from self._study(change.identifier)
                self._since = change.number  # last: a failure must not skip the change
            done = page.done or self._since <= start  # a list that does not go on has ended

    def _last(self) -> int:
        return self._get("changes?last", ChangeList).last

    def _study(self, identifier: str) -> Iterator[ArchiveStudy]:
        """Yield a study, unless it was deleted meanwhile; one that Orthanc fails to tell of comes later."""
        try:
            tags = self._get(f"studies/{identifier}", AnnouncedStudy).tags
        except FileNotFoundError:
            return
        except ArchiveFailed:
            self._last()  # raises if it is not this study alone
            self._unanswered.add(identifier)
            return
        if uid := str(tags.get("StudyInstanceUID", "")).strip():
            yield ArchiveStudy(uid, day=str(tags.get("StudyDate", "")).strip())

    def _get(self, path: str, model: type[OrthancAnswer]) -> OrthancAnswer:
        try:
            response = self.session.get(f"{self.url}/{path}", timeout=CHANGES_SECONDS)
        except requests.RequestException as error:
            raise ArchiveFailed(
                f"Orthanc at {self.url} does not answer: {connection_reason(error)}"
            ) from None
        status = response.status_code
        if status in (401, 403):
            raise denied(f"{self.url}/changes answered {status}")
        if status == 404 and path.startswith("studies/"):
            raise FileNotFoundError(path)
        if status >= 500 or status in (408, 429):
            restarts = ", perhaps while it restarts" if status in RESTARTING else ""
            raise ArchiveFailed(f"Orthanc at {self.url} answered {status}{restarts}")
        try:
            return model.model_validate_json(response.content if status == 200 else b"")
        except ValidationError:
            raise ArchiveFailed(
                f"{self.url}/changes is not a list of changes; name Orthanc's own address"
            ) from None
