"""Orthanc's list of changes, which tells of studies that have become stable."""

import json
import re
from collections.abc import Iterator

import requests

from cbir.errors import ArchiveFailed
from indexer.dicomweb.session import BoundedSession

ANSWER_SECONDS = 30.0
AT_ONCE = 100
IDENTIFIER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{8}){4}")


class Changes:
    """Follows /changes of the Orthanc at `url`, from where it was when this was made."""

    def __init__(self, url: str, session: BoundedSession) -> None:
        self.url = url
        self.session = session
        self._since = int(self._get("changes?last").get("Last", 0))

    def stable_studies(self) -> Iterator[str]:
        """The Study Instance UIDs of studies that no instance came to for a while, since the last call."""
        done = False
        while not done:
            page = self._get(f"changes?since={self._since}&limit={AT_ONCE}")
            for change in page.get("Changes", []):
                identifier = str(change.get("ID", ""))
                if change.get("ChangeType") == "StableStudy" and IDENTIFIER.fullmatch(identifier):
                    uid = self._uid(identifier)
                    if uid:
                        yield uid
                self._since = int(
                    change.get("Seq", self._since)
                )  # after it: a failure shall not pass it over
            done = bool(page.get("Done", True)) or not page.get("Changes")

    def _uid(self, identifier: str) -> str:
        try:
            tags = self._get(f"studies/{identifier}").get("MainDicomTags", {})
        except FileNotFoundError:  # deleted meanwhile
            return ""
        return str(tags.get("StudyInstanceUID", ""))

    def _get(self, path: str) -> dict:
        try:
            response = self.session.get(f"{self.url}/{path}", timeout=ANSWER_SECONDS)
            if response.status_code == 404 and path.startswith("studies/"):
                raise FileNotFoundError(path)
            response.raise_for_status()
            found = json.loads(response.content)
        except (requests.RequestException, ValueError):
            raise ArchiveFailed(
                f"{self.url}/changes gives no list of changes; name Orthanc's own address"
            ) from None
        if not isinstance(found, dict):
            raise ArchiveFailed(f"{self.url}/changes gives no list of changes; name Orthanc's own address")
        return found
