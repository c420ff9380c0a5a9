"""Orthanc's list of changes, which announces studies that have become stable."""

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import requests
from pydantic import BaseModel, Field, ValidationError

from cbir.errors import ArchiveFailed
from indexer.dicomweb.archive_items import ArchiveStudy
from indexer.dicomweb.archive_session import BoundedSession
from indexer.dicomweb.repeated_requests import connection_reason, denied

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
