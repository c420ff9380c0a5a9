"""Images of an XNAT server (xnat://PROJECT/SUBJECT/SESSION/SCAN/RESOURCE/FILE), by its REST interface.

Subjects and sessions are named by accession numbers, which tell nothing of a patient as labels do.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from cbir import settings
from cbir.errors import InvalidInput, XnatFailed
from cbir.ingest.xnat_session import PASSWORD, USER, XnatSession
from cbir.system.addresses import is_private_link

LEVELS = ("projects", "subjects", "experiments", "scans", "resources", "files")
IMAGE_SESSION = "SessionData"  # how types of imaging sessions end, such as xnat:mrSessionData
SESSION_COLUMNS = ("ID", "xsiType", "subject_ID", "subject_label")
DICOM = ("DICOM", "secondary")  # labels of resources with DICOM files
DERIVED = ("SNAPSHOTS",)  # resources with pictures that XNAT made of the others


class XnatFile(NamedTuple):
    """A file. url: its address. digest: "" where XNAT keeps none. subject: label of whom it shows.

    refused: why the session at `url` cannot be listed; "" for a file.
    """

    url: str
    size: int
    digest: str
    subject: str
    is_dicom: bool
    refused: str = ""


class XnatImagingSession(NamedTuple):
    """A session with images. subject, subject_label: number and label of whom it shows."""

    number: str
    subject: str
    subject_label: str


class XnatStore:
    """Lists and reads images of an XNAT server. Its methods raise XnatFailed, and FileNotFoundError."""

    def __init__(self, session: XnatSession) -> None:
        self.session = session

    def find(self, url: str) -> Iterator[XnatFile]:
        """Yield the images below an address, a scan at a time.

        Of a scan with DICOM files only these; never XNAT's snapshots, nor scans whose quality is "unusable". A
        session that the server does not list, while it answers otherwise, is yielded as refused.
        """
        parts = _parts(url)
        project, *below = parts
        subjects = self._subjects(project)
        sessions: dict[str, list[str]] = {}
        for session in self._sessions(project):
            subjects.setdefault(session.subject, session.subject_label)  # shared without their subject
            sessions.setdefault(session.subject, []).append(session.number)
        for subject in self._named_in(subjects, below, "subject"):
            for number in self._named_in(sessions.get(subject, []), below[1:], "session"):
                try:
                    yield from self._session_files([project, subject, number, *parts[3:]], subjects[subject])
                except XnatFailed as error:
                    self._subjects(project)  # raises if it is not this session alone
                    session_url = "xnat://" + "/".join([project, subject, number])
                    yield XnatFile(session_url, 0, "", subjects[subject], True, str(error))

    def check(self, url: str) -> None:
        """Raise XnatFailed if the server does not list the project of an address."""
        self._subjects(_parts(url)[0])

    def info(self, url: str) -> dict[str, Any]:
        """Return name, size, type and hash of a file, as fsspec does."""
        parts = _parts(url)
        if len(parts) == len(LEVELS):
            for file in self._files(parts):
                return {"name": url, "size": file.size, "type": "file", "etag": file.digest}
        raise FileNotFoundError(url)

    def cat_file(self, url: str, start: int = 0, end: int = 0) -> bytes:
        """Return a part of a file.

        Parameters
        ----------
        url : str
            Address of the file.
        start, end : int
            First byte, and the one after the last; all before `start` is transferred too.
        """
        return self.session.read(_path(_parts(url)), end)[start:]

    def cat_ranges(
        self, urls: Sequence[str], starts: Sequence[int], ends: Sequence[int], **_: Any
    ) -> list[Any]:
        """Return a part of each file, or the error that prevents it.

        Parameters
        ----------
        urls : sequence of str
            Addresses of the files.
        starts, ends : sequence of int
            As of `cat_file`.
        """
        return [self._part(*choice) for choice in zip(urls, starts, ends, strict=True)]

    def _part(self, url: str, start: int, end: int) -> bytes | Exception:
        try:
            return self.cat_file(url, start, end)
        except (OSError, XnatFailed) as error:
            return error

    def _subjects(self, project: str) -> dict[str, str]:
        """Return the labels of the subjects of a project by accession number."""
        try:
            rows = self.session.list(_path([project]) + "/subjects")
        except FileNotFoundError:
            raise XnatFailed(
                f"{self.session.url} has no project {project}, or this user may not read it"
            ) from None
        return {_text(row, "ID"): _text(row, "label") for row in rows}

    def _sessions(self, project: str) -> list[XnatImagingSession]:
        """Return the imaging sessions of a project: its own, and those that others share with it."""
        rows = self._listed(_path([project]) + "/experiments", SESSION_COLUMNS)
        sessions = [
            XnatImagingSession(
                _text(row, "ID"),
                _text(row, "subject_ID"),
                _text(row, "subject_label") or _text(row, "subject_ID"),
            )
            for row in rows
            if _text(row, "xsiType").endswith(IMAGE_SESSION)
        ]
        if not all(session.subject for session in sessions):
            raise XnatFailed(f"{self.session.url} lists sessions without their subject_ID")
        return sessions

    def _listed(self, path: str, columns: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Return the rows of what a listing has named; not to find it must not end the source early, as if read."""
        try:
            return self.session.list(path, columns)
        except FileNotFoundError:
            raise XnatFailed(
                f"{self.session.url} does not find what it lists: it was deleted meanwhile, or is damaged"
            ) from None

    def _named_in(self, names: Iterable[str], below: list[str], what: str) -> Iterable[str]:
        """Return the accession numbers of `names`: all, or the first of `below` if the address goes on."""
        if not below or below[0] in names:
            return below[:1] or names
        raise XnatFailed(
            f"{self.session.url} has no {what} with this accession number; write XNAT's own number, such as "
            f"XNAT_{'S' if what == 'subject' else 'E'}00001, and not the label"
        )

    def _session_files(self, parts: list[str], subject: str) -> Iterator[XnatFile]:
        """Yield the images of a session, or those in its scan, resource and file that `parts` go on with."""
        for row in self._listed(_path(parts[:3]) + "/scans"):
            scan = _text(row, "ID")
            if parts[3] == scan if len(parts) > 3 else _text(row, "quality") != "unusable":
                files = list(self._files([*parts[:3], scan, *parts[4:]], subject))
                with_dicom = any(file.is_dicom for file in files)
                yield from (file for file in files if file.is_dicom or not with_dicom)

    def _files(self, parts: list[str], subject: str = "") -> Iterator[XnatFile]:
        """Yield the files of a scan or resource, or the file of that name."""
        read_rows = self.session.list if len(parts) > 4 else self._listed
        for row in read_rows(_path(parts[:5]) + "/files"):
            resource = parts[4] if len(parts) > 4 else _text(row, "collection") or _text(row, "cat_ID")
            path = unquote(_text(row, "URI").partition("/files/")[2]) or _text(row, "Name")
            is_left_out = (len(parts) == 4 and resource in DERIVED) or parts[5:] not in ([], [path])
            if resource and path and not is_left_out:
                size = _text(row, "Size")
                yield XnatFile(
                    "xnat://" + "/".join([*parts[:4], resource, path]),
                    int(size) if size.isdigit() else 0,
                    _text(row, "digest"),
                    subject,
                    resource in DICOM or _text(row, "file_format") == "DICOM",
                )


def open_store() -> XnatStore:
    """Return the server of the setting `xnat_url`, with credentials from the environment."""
    url = settings.load().xnat_url
    if not url:
        raise InvalidInput(
            "xnat:// needs the address of the server: set xnat_url (or CBIR_XNAT_URL), for instance to "
            "https://xnat.example.org"
        )
    user, password = os.environ.get(USER, ""), os.environ.get(PASSWORD, "")
    if user and not is_private_link(url):
        raise InvalidInput(
            f"xnat_url must begin with https://, because the password is sent there; guests need no {USER}"
        )
    return XnatStore(XnatSession(url, user, password))


def _parts(url: str) -> list[str]:
    """Return project, subject, session, scan, resource and file of an address, as many as it has."""
    parts = url.partition("://")[2].strip("/").split("/", len(LEVELS) - 1)
    if {"", ".", ".."} & {segment for part in parts for segment in part.split("/")}:
        raise FileNotFoundError(url)
    return parts


def _path(parts: Sequence[str]) -> str:
    """Return the path of what `parts` name in XNAT's REST interface.

    A session is named without project and subject, since that of a shared session may be of a project which the user
    may not read.
    """
    levels = list(zip(LEVELS, parts, strict=False))[2 if len(parts) > 2 else 0 :]
    return "/data" + "".join(
        f"/{level}/{quote(part, safe='/' if level == 'files' else '')}" for level, part in levels
    )


def _text(row: dict[str, Any], key: str) -> str:
    return str(row.get(key) or "").strip()
