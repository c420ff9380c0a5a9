"""A DICOMweb archive: QIDO-RS lists what it holds (PS3.18, 10.6), WADO-RS fetches instances (10.4)."""

import logging
import re
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO

import requests
from dicomweb_client.web import DICOMwebClient

from cbir.errors import ArchiveFailed
from indexer.dicomweb.archive_items import ArchiveItem, ArchiveSeries, ArchiveStudy, ItemRefused
from indexer.dicomweb.archive_requests import (
    TRIES,
    BoundedSession,
    Gap,
    QidoResult,
    RepeatedRequests,
    all_pages,
    connection_reason,
    denied,
    first_value,
)
from indexer.dicomweb.orthanc_lists import OrthancLists

TIMEOUT_SECONDS = 60.0
UID = re.compile(r"[0-9.]{1,64}")
JSON = "application/dicom+json"
NO_STUDY = "2.25.0"  # UID of no study: to look for it reads no file of the archive
REFUSED_IN_A_ROW = 20  # instances; further ones are asked for once only, until one is delivered
STUDY_UID, SERIES_UID, INSTANCE_UID = "0020000D", "0020000E", "00080018"
STUDY_DATE = "00080020"
ReportGap = Callable[[ArchiveItem, str], None]

logging.getLogger("dicomweb_client").setLevel(logging.CRITICAL)  # its messages quote what archives answer


class DicomwebArchive:
    """A DICOMweb archive. Thread-safe. Its methods raise ArchiveFailed, and ItemRefused where one item fails.

    Parameters
    ----------
    url : str
        Address before /studies.
    session : BoundedSession
        Connection with credentials.
    qido, wado : str, optional
        Further path prefixes for QIDO-RS and WADO-RS.
    orthanc : str, optional
        Orthanc's own address; by default the address above `url` is tried where a list has gaps.

    Attributes
    ----------
    repeated : RepeatedRequests
        Makes the requests.
    report_gap : callable
        Called with what cannot be listed, and the reason.
    """

    def __init__(
        self,
        url: str,
        session: BoundedSession,
        qido: str | None = None,
        wado: str | None = None,
        orthanc: str | None = None,
    ):
        self.url = url
        self.session = session
        self.report_gap: ReportGap = lambda item, reason: None
        self.repeated = RepeatedRequests(self._problem)
        self._orthanc = OrthancLists(orthanc or url.rpartition("/")[0], session)
        self._studies_url = "/".join(filter(None, (url, (qido or "").strip("/"), "studies")))
        self._client = DICOMwebClient(
            url, session, qido_url_prefix=qido, wado_url_prefix=wado, timeout=TIMEOUT_SECONDS
        )
        self._client.set_http_retry_params(False)  # `repeated` does it
        self._refused_in_a_row = 0

    def check(self) -> None:
        """Raise ArchiveFailed if this is not an archive that can be listed, and say what answered instead."""
        try:
            response = self._search_one()
        except requests.RequestException as error:
            raise ArchiveFailed(f"no answer from {self.url}: {connection_reason(error)}") from None
        if not _is_answer(response):
            raise ArchiveFailed(
                f"{self._studies_url} is not a DICOMweb service: it answered {_summary(response)}; the address ends "
                "before /studies, Orthanc's in /dicom-web"
            )

    def _problem(self) -> str:
        """Ask a cheap question; return "" if the archive answers, else why it does not."""
        try:
            response = self._search_one()
        except requests.RequestException as error:
            return connection_reason(error)
        return "" if _is_answer(response) else f"it answered {_summary(response)}"

    def _search_one(self) -> requests.Response:
        """Search for one study; if that one fails, for a study that there is not. Raises ArchiveDenied."""
        for query in ({"limit": "1"}, {"limit": "1", "StudyInstanceUID": NO_STUDY}):
            response = self.session.get(
                self._studies_url, params=query, headers={"Accept": JSON}, timeout=TIMEOUT_SECONDS
            )
            if response.status_code in (401, 403):
                raise denied(f"{self._studies_url} answered {response.status_code}")
            if response.status_code < 500:
                break
        return response

    def studies(self, query: dict[str, str]) -> Iterator[ArchiveStudy]:
        """Yield the studies that match `query`, page by page."""
        try:
            yield from self._search_studies(query)
        except ItemRefused as error:
            raise ArchiveFailed(f"the archive does not list its studies: {error}") from None

    def _search_studies(self, query: dict[str, str]) -> Iterator[ArchiveStudy]:
        fields = ["StudyInstanceUID", "NumberOfStudyRelatedInstances", "StudyDate", "PatientID"]
        search = partial(self._client.search_for_studies, search_filters=query, fields=fields)
        days = {key: value for key, value in query.items() if key in ("StudyDate", "StudyInstanceUID")}
        also = partial(self._orthanc.find, "Study", days)
        for result in self._all(search, STUDY_UID, ArchiveItem(), also):
            count = first_value(result, "00201208")
            yield ArchiveStudy(
                first_value(result, STUDY_UID),
                int(count) if count.isdigit() else None,
                first_value(result, STUDY_DATE) if STUDY_DATE in result else None,
                first_value(result, "00100020") or None,
            )

    def series(self, study: str) -> Iterator[ArchiveSeries]:
        """Yield the series of a study."""
        fields = ["SeriesInstanceUID", "Modality", "BodyPartExamined"]
        search = partial(self._client.search_for_series, study, fields=fields)
        also = partial(self._orthanc.find, "Series", {"StudyInstanceUID": study})
        for result in self._all(search, SERIES_UID, ArchiveItem(study), also):
            tags = SERIES_UID, "00080060", "00180015"
            uid, modality, body_part = (first_value(result, tag) for tag in tags)
            yield ArchiveSeries(uid, modality, body_part.upper())

    def instances(self, study: str, series: str) -> Iterator[str]:
        """Yield the SOP Instance UIDs of a series."""
        search = partial(self._client.search_for_instances, study, series, fields=["SOPInstanceUID"])
        scope = {"StudyInstanceUID": study, "SeriesInstanceUID": series}
        also = partial(self._orthanc.find, "Instance", scope)
        for result in self._all(search, INSTANCE_UID, ArchiveItem(study, series), also):
            yield first_value(result, INSTANCE_UID)

    def find_study(self, uid: str) -> ArchiveStudy | None:
        """Return a study as the archive lists it now; None if it does not."""
        try:
            studies = self._search_studies({"StudyInstanceUID": uid})
            return next((study for study in studies if study.uid == uid), None)  # some ignore the query
        except ItemRefused as error:
            if error.is_missing:
                return None
            raise

    def find_instance(self, uid: str) -> ArchiveItem | None:
        """Return study and series of an instance by its UID alone (QIDO-RS, 10.6.1.2.3); None if there is none.

        Raises ItemRefused if the archive has no such search.
        """
        search = partial(self._client.search_for_instances, search_filters={"SOPInstanceUID": uid}, limit=1)
        try:
            results = self.repeated(search)
        except ItemRefused as error:
            results = list(self._orthanc.find("Instance", {"SOPInstanceUID": uid}))
            if not results:
                raise ItemRefused(f"the archive does not find instances by their UID: {error}") from None
        for result in results:
            if first_value(result, INSTANCE_UID) == uid:
                return ArchiveItem(first_value(result, STUDY_UID), first_value(result, SERIES_UID), uid)
        if results:
            raise ItemRefused("the archive does not find instances by their UID")
        return None

    def fetch(self, item: ArchiveItem) -> bytes:
        """Fetch an instance as a DICOM file, in the transfer syntax it is stored in."""
        uids = item.study, item.series, item.instance
        retrieve = partial(self._client.retrieve_instance, media_types=(("application/dicom", "*"),))
        tries = 1 if self._refused_in_a_row > REFUSED_IN_A_ROW else TRIES
        try:
            dataset = self.repeated(partial(retrieve, *uids), tries)
        except ItemRefused:
            self._refused_in_a_row += 1
            raise
        except ArchiveFailed:
            raise
        except Exception as error:  # not a DICOM file; the message may quote it
            raise ItemRefused(f"cannot be understood ({type(error).__name__})") from None
        self._refused_in_a_row = 0
        try:
            file = BytesIO()
            dataset.save_as(file, enforce_file_format=True)
        except Exception as error:
            raise ItemRefused(f"cannot be understood ({type(error).__name__})") from None
        return file.getvalue()

    def _all(
        self,
        search: Callable[..., list[QidoResult]],
        tag: str,
        within: ArchiveItem,
        also: Callable[[], Iterator[QidoResult]],
    ) -> Iterator[QidoResult]:
        """Yield results by the UID in `tag`, each once; where the archive cannot list some, those of `also` too.

        Ends at a page with nothing new: archives count offsets differently, or ignore them. What stays unknown is
        reported.
        """
        gaps: list[Gap] = []
        seen: set[str] = set()
        for results in all_pages(self.repeated, search, gaps):
            if not any(UID.fullmatch(first_value(result, tag)) for result in results):
                raise ItemRefused("its answer is no list of UIDs")
            new = _not_seen(results, tag, seen)
            if not new:
                break
            yield from new
        if not gaps:
            return
        recovered = 0
        for result in also():
            for new_result in _not_seen([result], tag, seen):
                recovered += 1
                yield new_result
        level = {STUDY_UID: "study", SERIES_UID: "series", INSTANCE_UID: "instance"}[tag]
        for position, reason in gaps[recovered:]:
            item = ArchiveItem(within.study, within.series, gap=f"{level} {position} of the archive's list")
            self.report_gap(item, f"cannot be listed: {reason}")


def _not_seen(results: list[QidoResult], tag: str, seen: set[str]) -> list[QidoResult]:
    """Return the results with a UID that is not in `seen`, and add it."""
    new = []
    for result in results:
        uid = first_value(result, tag)
        if UID.fullmatch(uid) and uid not in seen:
            seen.add(uid)
            new.append(result)
    return new


def _is_answer(response: requests.Response) -> bool:
    """Return whether this is a list of studies."""
    if response.status_code == 204:
        return True
    if response.status_code != 200 or "json" not in response.headers.get("Content-Type", ""):
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
