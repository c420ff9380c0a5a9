"""A small DICOMweb archive on loopback, that can ask for credentials, speak TLS and die at a given request."""

import base64
import json
import ssl
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pydicom import Dataset

from tests.indexer.receiving import file_of


class SmallArchive(ThreadingHTTPServer):
    """Studies of their series. credentials: what the header Authorization must be; "" for nothing.

    dies_after: requests that it answers; after them it cuts every connection, until that is None again.
    elsewhere: where it sends its clients to, if anywhere. said: the headers Authorization that came. asked:
    paths, and headers X-Key.
    connections: how many there were. Below /moved it sends its clients to /dicom-web.
    fetched: the SOP Instance UIDs that were asked for, in order. pages: searches for instances. failure: the status
    that a path is answered with, 0 for the right answer. has_matching: it finds studies and instances by UID; else
    it lists all of them, as some archives do. fixed: what it answers to each path outside DICOMweb, as JSON, or to a
    list.
    """

    daemon_threads = True

    def __init__(self, instances: Sequence[Dataset], credentials: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.instances: dict[str, bytes] = {}
        self.places: dict[str, tuple[str, str]] = {}
        self.patients: dict[str, str] = {}  # by study
        self.modalities: dict[str, str] = {}  # by series; CT for all others
        for ds in instances:
            self.put(ds)
        self.study, self.series = str(instances[0].StudyInstanceUID), str(instances[0].SeriesInstanceUID)
        self.credentials = credentials
        self.dies_after: int | None = None
        self.elsewhere = ""
        self.connections = 0
        self.said: list[str | None] = []
        self.asked: list[tuple[str, str | None]] = []
        self.fetched: list[str] = []
        self.pages: list[int] = []
        self.failure: Callable[[str], int] = lambda path: 0
        self.has_matching = False
        self.fixed: dict[str, Any] = {}

    def put(self, ds: Dataset) -> None:
        """Store an instance."""
        uid = str(ds.SOPInstanceUID)
        self.instances[uid] = file_of(ds)
        self.places[uid] = str(ds.StudyInstanceUID), str(ds.SeriesInstanceUID)
        self.patients[self.places[uid][0]] = str(ds.PatientID)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Count connections."""
        self.connections += 1
        return True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that do not trust us go away; that is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: SmallArchive

    def do_GET(self) -> None:
        archive = self.server
        if archive.dies_after is not None:
            if archive.dies_after == 0:
                self.close_connection = True
                return
            archive.dies_after -= 1
        archive.said.append(self.headers.get("Authorization"))
        archive.asked.append((unquote(self.path), self.headers.get("X-Key")))
        if archive.elsewhere or self.path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", archive.elsewhere + self.path.replace("/moved/", "/dicom-web/"))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if archive.credentials and self.headers.get("Authorization") != archive.credentials:
            self._answer(401, "text/plain", b"who are you?")
            return
        if status := archive.failure(unquote(self.path)):
            self._answer(status, "text/plain", b"as the test says")
            return
        parts = urlsplit(self.path)
        words = parts.path.strip("/").split("/")
        asked = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if parts.path in archive.fixed:
            self._answer(200, "application/json", json.dumps(archive.fixed[parts.path]).encode())
        elif words[0] != "dicom-web":
            self._answer(200, "text/html", b"<title>Welcome</title>")
        elif words[-1] in ("studies", "series", "instances"):
            self._list(words, asked)
        elif words[-1] not in archive.instances or archive.places[words[-1]][0] not in words:
            self._answer(404, "text/plain", b"it is not here")
        else:
            archive.fetched.append(words[-1])
            data = archive.instances[words[-1]]
            body = b"--edge\r\nContent-Type: application/dicom\r\n\r\n" + data + b"\r\n--edge--"
            self._answer(200, 'multipart/related; type="application/dicom"; boundary=edge', body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

    def _list(self, words: Sequence[str], asked: dict[str, str]) -> None:
        archive, what = self.server, words[-1]
        offset, limit = int(asked.get("offset", 0)), int(asked.get("limit", 1000))
        found: dict[str, dict[str, Any]] = {}
        counts = Counter(archive.places[uid][0] for uid in archive.instances)
        for instance in archive.instances:
            study, series = archive.places[instance]
            scope = dict(zip(words[1:-1:2], words[2:-1:2], strict=False))
            if scope.get("studies", study) != study or scope.get("series", series) != series:
                continue
            if archive.has_matching and (
                asked.get("StudyInstanceUID", study) != study
                or asked.get("SOPInstanceUID", instance) != instance
            ):
                continue
            uid = {"studies": study, "series": series, "instances": instance}[what]
            found[uid] = {"0020000D": _uid(study)}
            if what == "studies":
                found[uid]["00100020"] = {"vr": "LO", "Value": [archive.patients[study]]}
                found[uid]["00201208"] = {"vr": "IS", "Value": [counts[study]]}
            else:
                found[uid]["0020000E"] = _uid(series)
            if what == "series":
                found[uid]["00080060"] = {"vr": "CS", "Value": [archive.modalities.get(series, "CT")]}
                found[uid]["00180015"] = {"vr": "CS", "Value": ["CHEST"]}
            if what == "instances":
                found[uid]["00080018"] = _uid(instance)
        if what == "instances":
            archive.pages.append(offset)
        page = list(found.values())[offset : offset + limit]
        self._answer(200, "application/dicom+json", json.dumps(page).encode())

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def _uid(value: str) -> dict[str, Any]:
    return {"vr": "UI", "Value": [value]}


def basic(user: str, password: str) -> str:
    """The header Authorization of a user."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def certificate(folder: Path, name: str = "127.0.0.1") -> tuple[Path, Path]:
    """A certificate for an address, signed by itself, and its key."""
    made, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=archive", "-addext", f"subjectAltName=IP:{name}", "-keyout", key, "-out", made],
        check=True, capture_output=True, timeout=400,
    )  # fmt: skip
    return made, key


@contextmanager
def serving(archive: SmallArchive, signed: tuple[Path, Path] | None = None) -> Iterator[str]:
    """Its address while it answers; with a certificate and its key over TLS."""
    if signed:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*signed)
        archive.socket = context.wrap_socket(archive.socket, server_side=True, do_handshake_on_connect=False)
    thread = Thread(target=archive.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"{'https' if signed else 'http'}://127.0.0.1:{archive.server_address[1]}/dicom-web"
    finally:
        archive.shutdown()
        thread.join()
        archive.server_close()
