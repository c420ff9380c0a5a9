"""An archive: what it holds by QIDO-RS (PS3.18, 10.6), and its instances by WADO-RS (10.4)."""

import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any, TypeVar

import pydicom
import requests
from dicomweb_client.web import DICOMwebClient

from cbir.errors import ArchiveFailed
from indexer.dicomweb.session import BoundedSession

PAGE = 100  # results asked for at once
TRIES = 4
PAUSE_SECONDS = 1.0  # before the second try, and twice as long before each further one
ANSWER_SECONDS = 60.0
UID = re.compile(r"[0-9.]{1,64}")
JSON = "application/dicom+json"

Result = dict[str, dict[str, Any]]
Found = TypeVar("Found")

logging.getLogger("dicomweb_client").setLevel(logging.CRITICAL)  # its words quote what archives answer


@dataclass(frozen=True)
class Study:
    """instances: how many it has; None where the archive does not say."""

    uid: str
    instances: int | None = None


@dataclass(frozen=True)
class Series:
    """modality, body_part: "" where the archive does not say."""

    uid: str
    modality: str = ""
    body_part: str = ""


class NotGiven(Exception):
    """The archive does not give one instance, though it answers."""


class Archive:
    """The archive at `url`, with further path prefixes for QIDO-RS and WADO-RS where it has them. Thread-safe."""

    def __init__(self, url: str, session: BoundedSession, qido: str | None = None, wado: str | None = None):
        self.url = url
        self.session = session
        self.qido = qido
        self._client = DICOMwebClient(
            url, session, qido_url_prefix=qido, wado_url_prefix=wado, timeout=ANSWER_SECONDS
        )
        self._client.set_http_retry_params(False)  # we do

    def check(self) -> None:
        """Raise ArchiveFailed, saying what answered instead, where this is no archive that can be listed."""
        address = "/".join(filter(None, (self.url, (self.qido or "").strip("/"), "studies")))
        try:
            asked = {"params": {"limit": "1"}, "headers": {"Accept": JSON}, "timeout": ANSWER_SECONDS}
            response = self.session.get(address, **asked)  # type: ignore[arg-type]
        except requests.RequestException as error:
            raise ArchiveFailed(f"nobody answers at {self.url}: {_why(error)}") from None
        if response.status_code in (401, 403):
            raise ArchiveFailed(
                f"{address} answered {response.status_code}: credentials are needed (CBIR_DICOMWEB_USER and "
                "CBIR_DICOMWEB_PASSWORD, or CBIR_DICOMWEB_TOKEN), or these are not enough"
            )
        if response.status_code == 204 or (response.status_code == 200 and _is_list(response)):
            return
        raise ArchiveFailed(
            f"{address} is no DICOMweb service: {_what(response)} answered; the address ends before /studies, "
            "Orthanc's in /dicom-web"
        )

    def studies(self, filters: dict[str, str]) -> Iterator[Study]:
        """The studies that match, page by page."""
        fields = ["StudyInstanceUID", "NumberOfStudyRelatedInstances"]

        def page(offset: int) -> list[Result]:
            return self._client.search_for_studies(
                search_filters=filters, fields=fields, limit=PAGE, offset=offset
            )

        for result in _pages(page, "0020000D"):
            count = _value(result, "00201208")
            yield Study(_value(result, "0020000D"), int(count) if count.isdigit() else None)

    def series(self, study: str) -> Iterator[Series]:
        """The series of a study."""
        fields = ["SeriesInstanceUID", "Modality", "BodyPartExamined"]

        def page(offset: int) -> list[Result]:
            return self._client.search_for_series(study, fields=fields, limit=PAGE, offset=offset)

        for result in _pages(page, "0020000E"):
            yield Series(
                _value(result, "0020000E"), _value(result, "00080060"), _value(result, "00180015").upper()
            )

    def instances(self, study: str, series: str) -> Iterator[str]:
        """The SOP Instance UIDs of a series."""

        def page(offset: int) -> list[Result]:
            return self._client.search_for_instances(
                study, series, fields=["SOPInstanceUID"], limit=PAGE, offset=offset
            )

        for result in _pages(page, "00080018"):
            yield _value(result, "00080018")

    def fetch(self, study: str, series: str, instance: str) -> bytes:
        """The instance as a DICOM file, in the transfer syntax it is kept in; raises NotGiven."""

        def get() -> pydicom.Dataset:
            return self._client.retrieve_instance(
                study, series, instance, media_types=(("application/dicom", "*"),)
            )

        try:
            dataset = _tried(get)
            file = BytesIO()
            dataset.save_as(file, enforce_file_format=True)
        except (ArchiveFailed, NotGiven):
            raise
        except Exception as error:  # what was given is no DICOM file; its words may quote it
            raise NotGiven(f"cannot be understood ({type(error).__name__})") from None
        return file.getvalue()


def _pages(page: Callable[[int], list[Result]], tag: str) -> Iterator[Result]:
    """Results until a page brings nothing new: archives differ in how they count offsets, and some ignore them."""
    seen: set[str] = set()
    offset = 0
    while True:
        results = _tried(partial(page, offset))
        new = [one for one in results if UID.fullmatch(_value(one, tag)) and _value(one, tag) not in seen]
        if not new:
            return
        seen.update(_value(one, tag) for one in new)
        yield from new
        offset += len(results)


def _tried(ask: Callable[[], Found]) -> Found:
    """What the archive answers, asked again where it is gone or overwhelmed; raises ArchiveFailed and NotGiven."""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE_SECONDS * 2 ** (attempt - 1))
        try:
            return ask()
        except requests.HTTPError as error:
            status = error.response.status_code if error.response is not None else 0
            if status < 500 and status not in (408, 429):
                raise NotGiven(f"the archive answered {status}") from None
            why = f"it answered {status}"
        except requests.RequestException as error:
            why = _why(error)
        except (ValueError, KeyError, TypeError) as error:  # cut short, or no JSON
            why = f"its answer cannot be understood ({type(error).__name__})"
    raise ArchiveFailed(f"the archive stopped answering: {why}; what was fetched is kept, run the same again")


def _value(result: Result, tag: str) -> str:
    """The first value of an attribute in the DICOM JSON model (PS3.18, F.2); "" where there is none."""
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


def _what(response: requests.Response) -> str:
    """What an answer is, in a few plain words."""
    kind = response.headers.get("Content-Type", "nothing in particular").partition(";")[0]
    title = re.search(rb"<title[^>]*>([^<]{1,60})", response.content[:20000], re.IGNORECASE)
    told = f"{response.status_code} with {kind}"
    if title:
        told += f" titled {title.group(1).decode(errors='replace').strip()!r}"
    server = response.headers.get("Server")
    told += f" from {server[:40]}" if server else ""
    return re.sub(r"[^ -~]", "?", told)


def _why(error: requests.RequestException) -> str:
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not trusted, or it speaks no TLS (--authority names who signed it)"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if "larger than is taken" in str(error):
        return "an answer is larger than is taken"
    return "the connection is refused or was cut"
