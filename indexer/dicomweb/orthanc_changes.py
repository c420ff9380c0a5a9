"""Orthanc's list of changes, which announces studies that have become stable."""

import json
import re
from collections.abc import Iterator
from typing import Any

import requests

from cbir.errors import ArchiveFailed
from indexer.dicomweb.archive_session import BoundedSession

TIMEOUT_SECONDS = 30.0
PAGE = 100  # changes of one request
IDENTIFIER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{8}){4}")


class OrthancChanges:
    """Follows /changes of the Orthanc at `url`, starting with the next change."""

    def __init__(self, url: str, session: BoundedSession) -> None:
        self.url = url
        self.session = session
        self._since = self._last()

    def stable_studies(self) -> Iterator[str]:
        """Yield the Study Instance UIDs of studies that became stable since the last call.

        All of them where Orthanc's list is shorter than before, as with a new or restored database.
        """
        if self._last() < self._since:
            self._since = 0
        done = False
        while not done:
            page = self._get(f"changes?since={self._since}&limit={PAGE}")
            for change in page.get("Changes", []):
                identifier = str(change.get("ID", ""))
                if change.get("ChangeType") == "StableStudy" and IDENTIFIER.fullmatch(identifier):
                    uid = self._study_uid(identifier)
                    if uid:
                        yield uid
                self._since = int(change.get("Seq", self._since))  # last: a failure must not skip the change
            done = bool(page.get("Done", True)) or not page.get("Changes")

    def _last(self) -> int:
        return int(self._get("changes?last").get("Last", 0))

    def _study_uid(self, identifier: str) -> str:
        try:
            tags = self._get(f"studies/{identifier}").get("MainDicomTags", {})
        except FileNotFoundError:  # deleted meanwhile
            return ""
        return str(tags.get("StudyInstanceUID", ""))

    def _get(self, path: str) -> dict[str, Any]:
        failure = ArchiveFailed(f"{self.url}/changes is not a list of changes; name Orthanc's own address")
        try:
            response = self.session.get(f"{self.url}/{path}", timeout=TIMEOUT_SECONDS)
            if response.status_code == 404 and path.startswith("studies/"):
                raise FileNotFoundError(path)
            response.raise_for_status()
            answer = json.loads(response.content)
        except (requests.RequestException, ValueError):
            raise failure from None
        if not isinstance(answer, dict):
            raise failure
        return answer
