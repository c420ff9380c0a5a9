"""A small XNAT server on loopback: the part of the REST interface that lists and reads a project's images.

Shapes of answers are those of the public documentation of XNAT 1.8 (wiki.xnat.org/xnat-api).
"""

import base64
import hashlib
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

USER, PASSWORD = "reader", "pässwörd:not-to-be-logged"
ALIAS, SECRET = "a8a73c8d-a0bd-44d1-87af-244476072af4", "wGdawXhqo9Fhsh5p1pd6nGRloF99mxXY"


@dataclass
class Scan:
    """A scan. resources: files by name, by label of the resource."""

    resources: dict[str, dict[str, bytes]]
    quality: str = "usable"


@dataclass
class Session:
    """An experiment of a subject."""

    label: str
    scans: dict[str, Scan] = field(default_factory=dict)
    xsi_type: str = "xnat:crSessionData"


@dataclass
class Subject:
    """A subject with its experiments by accession number."""

    label: str
    sessions: dict[str, Session] = field(default_factory=dict)


class SmallXnat(ThreadingHTTPServer):
    """One project, BONES.

    shared: subjects of a project that the user may not read, with sessions that this one shares with BONES.
    faults: statuses that the next requests get. lasts: requests that a session lasts; None: any number.
    open_sessions: their numbers, JSESSIONID. asked: method and path of every request. sent: headers Authorization.
    totals: what every listing says it has in all; None: its number of rows. files_left: files that are sent before
    it is overloaded; None: any number. moved_to: where it sends all requests. broken: statuses by part of a path.
    """

    daemon_threads = True

    def __init__(self, subjects: dict[str, Subject]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.subjects = subjects
        self.shared: dict[str, Subject] = {}
        self.faults: list[int] = []
        self.lasts: int | None = None
        self.totals: int | None = None
        self.files_left: int | None = None
        self.moved_to = ""
        self.broken: dict[str, int] = {}
        self.open_sessions: dict[str, int] = {}
        self.asked: list[tuple[str, str]] = []
        self.sent: list[str] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are no news."""

    def sessions(self) -> dict[str, Session]:
        """Sessions of the project by accession number, shared ones too."""
        subjects = [*self.subjects.values(), *self.shared.values()]
        return {number: session for subject in subjects for number, session in subject.sessions.items()}

    def rows(self, parts: list[str], columns: list[str]) -> list[dict[str, Any]] | None:
        """Rows of the listing below /data; None if there is none. columns: those that the request names."""
        match parts:
            case ["projects"]:
                return [
                    {"ID": "BONES", "name": "Bones", "secondary_ID": "BONES", "URI": "/data/projects/BONES"}
                ]
            case ["projects", "BONES", "subjects"]:
                return [_subject_row(number, subject) for number, subject in self.subjects.items()]
            case ["projects", "BONES", "experiments"]:
                return [
                    _session_row(number, session, subject_number, subject.label, columns)
                    for subject_number, subject in [*self.subjects.items(), *self.shared.items()]
                    for number, session in subject.sessions.items()
                ]
            case ["experiments", number, *below] if number in self.sessions():
                return _scan_listing(self.sessions()[number], [number, *below])
        return None

    def content(self, parts: list[str]) -> bytes | None:
        """Content of the file that a path below /data names; None if there is none."""
        try:
            _, session, _, scan, _, resource, _, *name = parts
            return self.sessions()[session].scans[scan].resources[resource]["/".join(name)]
        except (KeyError, ValueError):
            return None


def _subject_row(number: str, subject: Subject) -> dict[str, Any]:
    row = {"ID": number, "label": subject.label, "project": "BONES", "insert_date": "2026-01-02 03:04:05.6"}
    return row | {"insert_user": "admin", "URI": f"/data/subjects/{number}"}


def _session_row(
    number: str, session: Session, subject: str, subject_label: str, columns: list[str]
) -> dict[str, Any]:
    row = {"ID": number, "label": session.label, "project": "BONES", "date": "2020-03-01", "insert_date": ""}
    row |= {"xsiType": session.xsi_type, "subject_ID": subject, "subject_label": subject_label}
    shown = columns or ["ID", "label", "project", "date", "insert_date", "xsiType"]
    return {name: row[name] for name in {"ID", *shown}} | {"URI": f"/data/experiments/{number}"}


def _scan_listing(session: Session, below: list[str]) -> list[dict[str, Any]] | None:
    number, *words = below
    match words:
        case ["scans"]:
            return [
                {"xnat_imagescandata_id": str(row), "ID": name, "type": "CR", "quality": scan.quality, "note": "",
                 "xsiType": "xnat:crScanData", "URI": f"/data/experiments/{number}/scans/{name}"}
                for row, (name, scan) in enumerate(session.scans.items())
            ]  # fmt: skip
        case ["scans", scan, "files"] if scan in session.scans:
            chosen = session.scans[scan].resources
        case ["scans", scan, "resources", label, "files"] if scan in session.scans:
            chosen = {label: session.scans[scan].resources.get(label, {})}
        case _:
            return None
    return [
        {"Name": name.rpartition("/")[2], "Size": str(len(content)), "cat_ID": str(row), "collection": label,
         "URI": f"/data/experiments/{number}/scans/{words[1]}/resources/{row}/files/{quote(name)}",
         "digest": hashlib.md5(content).hexdigest(), "file_tags": "", "file_content": "RAW",
         "file_format": "DICOM" if label == "DICOM" else ""}
        for row, (label, files) in enumerate(chosen.items()) for name, content in files.items()
    ]  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    server: SmallXnat

    def do_POST(self) -> None:
        self._answer_request()

    do_GET = do_DELETE = do_PUT = do_POST  # noqa: N815

    def _answer_request(self) -> None:
        xnat, path = self.server, urlsplit(self.path).path.rstrip("/")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        xnat.asked.append((self.command, unquote(path)))
        xnat.sent.append(self.headers.get("Authorization") or "")
        if xnat.faults:
            self._answer(xnat.faults.pop(0), "text/html", b"<html><h1>Service Unavailable</h1></html>")
            return
        if xnat.moved_to:
            self._answer(302, "text/html", b"", location=xnat.moved_to + path)
            return
        for part, status in xnat.broken.items():
            if part in path:
                self._answer(status, "text/html", b"<html><h1>Internal Server Error</h1></html>")
                return
        session = self._session(body if path.endswith("/services/auth") else b"")
        if session is None:
            self._answer(401, "text/html", b"<html><h3>Login attempt failed. pw=hunter2</h3></html>")
        elif path in ("/data/JSESSION", "/data/services/auth"):
            if self.command == "DELETE":
                xnat.open_sessions.pop(session, None)
            self._answer(200, "text/plain", session.encode(), session)
        else:
            self._answer_data([unquote(part) for part in path.split("/")], session)

    def _session(self, form: bytes) -> str | None:
        """Number of the request's session, new or running; None if the request has neither right."""
        xnat, cookies = self.server, self.headers.get("Cookie") or ""
        number = cookies.partition("JSESSIONID=")[2].partition(";")[0]
        if number in xnat.open_sessions:
            xnat.open_sessions[number] += 1
            if xnat.lasts is None or xnat.open_sessions[number] <= xnat.lasts:
                return number
            del xnat.open_sessions[number]
        pairs = [(USER, PASSWORD), (ALIAS, SECRET)]
        posted = {key: values[0] for key, values in parse_qs(form.decode()).items()}
        is_posted = (posted.get("username", ""), posted.get("password", "")) in pairs
        allowed = {basic(*pair) for pair in pairs}
        if not is_posted and self.headers.get("Authorization") not in allowed:
            return None
        number = secrets.token_hex(16).upper()
        xnat.open_sessions[number] = 0
        return number

    def _answer_data(self, parts: list[str], session: str) -> None:
        _, *words = [part for part in parts if part != "archive"]
        if words == ["xapi", "siteConfig", "buildInfo"]:
            self._answer(200, "application/json", b'{"version": "1.8.10"}', session)
            return
        if words == ["data", "auth"]:
            self._answer(200, "text/html", f"User '{USER}' is logged in".encode(), session)
            return
        below = words[1:] if words[:1] in (["data"], ["REST"]) else []
        if (content := self.server.content(below)) is not None:
            self._answer_file(content, session)
        elif (rows := self.server.rows(below, self._columns())) is not None:
            total = len(rows) if self.server.totals is None else self.server.totals
            result = {"ResultSet": {"Result": rows, "totalRecords": str(total), "title": "Listing"}}
            self._answer(200, "application/json;charset=UTF-8", json.dumps(result).encode(), session)
        else:
            self._answer(404, "text/html", b"<html><h3>Not found</h3></html>", session)

    def _columns(self) -> list[str]:
        named = parse_qs(urlsplit(self.path).query).get("columns", [""])[0]
        return named.split(",") if named else []

    def _answer_file(self, content: bytes, session: str) -> None:
        if self.server.files_left == 0:
            self._answer(503, "text/html", b"", session)
            return
        if self.server.files_left is not None:
            self.server.files_left -= 1
        self._answer(200, "application/octet-stream", content, session)

    def _answer(self, status: int, kind: str, body: bytes, session: str = "", location: str = "") -> None:
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        if session:
            self.send_header("Set-Cookie", f"JSESSIONID={session}; Path=/; HttpOnly")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def basic(user: str, password: str) -> str:
    """The header Authorization of a user."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@contextmanager
def serving_xnat(xnat: SmallXnat) -> Iterator[str]:
    """Its address while it answers."""
    thread = Thread(target=xnat.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{xnat.server_address[1]}"
    finally:
        xnat.shutdown()
        thread.join()
        xnat.server_close()
