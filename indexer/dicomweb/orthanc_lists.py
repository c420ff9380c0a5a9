"""Orthanc's own lists of studies, series and instances.

They come from its index, so that they also have what DICOMweb cannot list because a file is lost.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import requests

from cbir.errors import CbirError
from indexer.dicomweb.archive_pages import PAGE, QidoResult
from indexer.dicomweb.archive_session import BoundedSession

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
