"""A DICOMweb archive: QIDO-RS lists what it holds (PS3.18, 10.6), WADO-RS fetches instances (10.4)."""

import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any, TypeVar

import requests
from dicomweb_client.web import DICOMwebClient

from cbir.errors import ArchiveFailed
from indexer.dicomweb.archive_session import BoundedSession

PAGE = 100  # results of one query
TRIES = 4
PAUSE_SECONDS = 1.0  # before the second try, and twice as long before each further one
TIMEOUT_SECONDS = 60.0
UID = re.compile(r"[0-9.]{1,64}")
JSON = "application/dicom+json"

QidoResult = dict[str, dict[str, Any]]
Answer = TypeVar("Answer")

logging.getLogger("dicomweb_client").setLevel(logging.CRITICAL)  # its messages quote what archives answer


@dataclass(frozen=True)
class ArchiveStudy:
    """A study. instances: their number, None if the archive does not say."""

    uid: str
    instances: int | None = None


@dataclass(frozen=True)
class ArchiveSeries:
    """A series. modality, body_part: "" if the archive does not say."""

    uid: str
    modality: str = ""
    body_part: str = ""


class InstanceRefused(Exception):
    """The archive answers, but does not deliver one instance."""


class DicomwebArchive:
    """A DICOMweb archive. Thread-safe.

    Parameters
    ----------
    url : str
        Address before /studies.
    session : BoundedSession
        Connection with credentials.
    qido, wado : str, optional
        Further path prefixes for QIDO-RS and WADO-RS.
    """

    def __init__(self, url: str, session: BoundedSession, qido: str | None = None, wado: str | None = None):
        self.url = url
        self.session = session
        self.qido = qido
        self._client = DICOMwebClient(
            url, session, qido_url_prefix=qido, wado_url_prefix=wado, timeout=TIMEOUT_SECONDS
        )
        self._client.set_http_retry_params(False)  # `_retry` does it

    def check(self) -> None:
        """Raise ArchiveFailed if this is not an archive that can be listed, and say what answered instead."""
        address = "/".join(filter(None, (self.url, (self.qido or "").strip("/"), "studies")))
        try:
            response = self.session.get(
                address, params={"limit": "1"}, headers={"Accept": JSON}, timeout=TIMEOUT_SECONDS
            )
        except requests.RequestException as error:
            raise ArchiveFailed(f"no answer from {self.url}: {_reason(error)}") from None
        if response.status_code in (401, 403):
            raise ArchiveFailed(
                f"{address} answered {response.status_code}: credentials are needed (CBIR_DICOMWEB_USER and "
                "CBIR_DICOMWEB_PASSWORD, or CBIR_DICOMWEB_TOKEN), or these are not sufficient"
            )
        if response.status_code == 204 or (response.status_code == 200 and _is_list(response)):
            return
        raise ArchiveFailed(
            f"{address} is not a DICOMweb service: it answered {_summary(response)}; the address ends before "
            "/studies, Orthanc's in /dicom-web"
        )

    def studies(self, query: dict[str, str]) -> Iterator[ArchiveStudy]:
        """Yield the studies that match `query`, page by page."""
        fields = ["StudyInstanceUID", "NumberOfStudyRelatedInstances"]
        search = partial(self._client.search_for_studies, search_filters=query, fields=fields)
        for result in _all_pages(search, "0020000D"):
            count = _first_value(result, "00201208")
            yield ArchiveStudy(_first_value(result, "0020000D"), int(count) if count.isdigit() else None)

    def series(self, study: str) -> Iterator[ArchiveSeries]:
        """Yield the series of a study."""
        fields = ["SeriesInstanceUID", "Modality", "BodyPartExamined"]
        search = partial(self._client.search_for_series, study, fields=fields)
        for result in _all_pages(search, "0020000E"):
            tags = "0020000E", "00080060", "00180015"
            uid, modality, body_part = (_first_value(result, tag) for tag in tags)
            yield ArchiveSeries(uid, modality, body_part.upper())

    def instances(self, study: str, series: str) -> Iterator[str]:
        """Yield the SOP Instance UIDs of a series."""
        search = partial(self._client.search_for_instances, study, series, fields=["SOPInstanceUID"])
        for result in _all_pages(search, "00080018"):
            yield _first_value(result, "00080018")

    def fetch(self, study: str, series: str, instance: str) -> bytes:
        """Fetch an instance as a DICOM file, in the transfer syntax it is stored in.

        Parameters
        ----------
        study, series, instance : str
            UIDs.

        Raises
        ------
        InstanceRefused
            If the archive does not deliver it.
        ArchiveFailed
            If the archive stops answering.
        """
        retrieve = partial(self._client.retrieve_instance, media_types=(("application/dicom", "*"),))
        try:
            dataset = _retry(partial(retrieve, study, series, instance))
            file = BytesIO()
            dataset.save_as(file, enforce_file_format=True)
        except (ArchiveFailed, InstanceRefused):
            raise
        except Exception as error:  # not a DICOM file; the message may quote it
            raise InstanceRefused(f"cannot be understood ({type(error).__name__})") from None
        return file.getvalue()


def _all_pages(search: Callable[..., list[QidoResult]], tag: str) -> Iterator[QidoResult]:
    """Yield results until a page has nothing new: archives count offsets differently, or ignore them."""
    seen: set[str] = set()
    offset = 0
    while True:
        results = _retry(partial(search, limit=PAGE, offset=offset))
        by_uid = [(_first_value(result, tag), result) for result in results]
        new = [result for uid, result in by_uid if UID.fullmatch(uid) and uid not in seen]
        if not new:
            return
        seen.update(uid for uid, _ in by_uid)
        yield from new
        offset += len(results)


def _retry(request: Callable[[], Answer]) -> Answer:
    """Return the archive's answer; try again if it is down or overloaded. Raises ArchiveFailed, InstanceRefused."""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE_SECONDS * 2 ** (attempt - 1))
        try:
            return request()
        except requests.HTTPError as error:
            status = error.response.status_code if error.response is not None else 0
            if status < 500 and status not in (408, 429):
                raise InstanceRefused(f"the archive answered {status}") from None
            reason = f"it answered {status}"
        except requests.RequestException as error:
            reason = _reason(error)
        except (ValueError, KeyError, TypeError) as error:  # cut short, or not JSON
            reason = f"its answer cannot be understood ({type(error).__name__})"
    raise ArchiveFailed(
        f"the archive stopped answering: {reason}; what was fetched is in the collection, run the same command again"
    )


def _first_value(result: QidoResult, tag: str) -> str:
    """Return the first value of an attribute in the DICOM JSON model (PS3.18, F.2); "" if there is none."""
    try:
        return str(result[tag]["Value"][0]).strip()
    except (KeyError, IndexError, TypeError):
        return ""


def _is_list(response: requests.Response) -> bool:
    if "json" not in response.headers.get("Content-Type", ""):
        return False
    try:
        return isinstance(response.json(), list)
    except ValueError:
        return False


def _summary(response: requests.Response) -> str:
    """Summarise an answer: status, type, title and server, in printable ASCII."""
    kind = response.headers.get("Content-Type", "no content type").partition(";")[0]
    title = re.search(rb"<title[^<>]*>([^<]{1,60})", response.content[:20000], re.IGNORECASE)
    text = f"{response.status_code} with {kind}"
    if title:
        text += f" titled {title.group(1).decode(errors='replace').strip()!r}"
    if server := response.headers.get("Server"):
        text += f" from {server[:40]}"
    return re.sub(r"[^ -~]", "?", text)


def _reason(error: requests.RequestException) -> str:
    if isinstance(error, requests.exceptions.SSLError):
        return (
            "its certificate is not trusted, or it does not use TLS (--authority names the signing authority)"
        )
    if isinstance(error, requests.TooManyRedirects):
        return "it redirects without end"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if "larger than the limit" in str(error):
        return "an answer is larger than the limit"
    return "the connection was refused or cut"
