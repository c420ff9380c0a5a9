"""The viewer OHIF as a server beside Orthanc: its files, its configuration, and the archive behind it.

`python -m tests.e2e.ohif PORT SERVICE` runs it, in the network namespace of Orthanc.
"""

import json
import mimetypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pydicom import dcmread

import service
from cbir.evaluation.datasets.phantoms import write_phantoms
from tests.indexer.orthanc import DICOM, HTTP, Namespace, namespace, orthanc
from tests.indexer.receiving import CBIR

DIST = Path(sys.prefix, "ohif", "package", "dist")
VIEWER_PORT, SERVICE_PORT = 3000, 8000
ARCHIVE = "/dicom-web"
PANEL = "cbir.panelModule.similar"
EXTENSION = Path(service.__file__).parent / "static" / "ohif.js"
ANSWERS = "import sys,urllib.request as u; u.urlopen(sys.argv[1], timeout=5)"
mimetypes.add_type("application/wasm", ".wasm")


def configuration(address: str) -> str:
    """Return OHIF's configuration: the archive, and our panel from the service at `address`."""
    archive = {
        "namespace": "@ohif/extension-default.dataSourcesModule.dicomweb",
        "sourceName": "orthanc",
        "configuration": {
            "friendlyName": "Orthanc",
            "wadoUriRoot": ARCHIVE,
            "qidoRoot": ARCHIVE,
            "wadoRoot": ARCHIVE,
            "imageRendering": "wadors",
            "thumbnailRendering": "wadors",
        },
    }
    config = {
        "routerBasename": None,
        "extensions": [f"/ohif.js?service={address}"],
        "modes": [],
        "customizationService": {"mode": {"viewer": {"rightPanels": {"$push": [PANEL]}}}},
        "investigationalUseDialog": {"option": "never"},
        "dataSources": [archive],
        "defaultDataSourceName": "orthanc",
    }
    return f"window.config = {json.dumps(config)};"


class Viewer(BaseHTTPRequestHandler):
    """OHIF's files, isolated as it recommends, and what Orthanc answers."""

    address = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith(ARCHIVE):
            asked = HTTPConnection("127.0.0.1", HTTP, timeout=30)
            asked.request("GET", self.path, headers={"Accept": self.headers.get("Accept", "*/*")})
            answer = asked.getresponse()
            self.answer(answer.read(), answer.getheader("Content-Type", ""), answer.status)
            asked.close()
        elif path == "/app-config.js":
            self.answer(configuration(self.address).encode(), "text/javascript")
        elif path == "/ohif.js":
            self.answer(EXTENSION.read_bytes(), "text/javascript")
        else:
            file = DIST / path.lstrip("/")
            file = file if file.is_file() else DIST / "index.html"
            self.answer(file.read_bytes(), mimetypes.guess_type(file.name)[0] or "application/octet-stream")

    def answer(self, body: bytes, kind: str, status: int = 200) -> None:
        """Send `body`."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def write_files(folder: Path, count: int) -> dict[str, set[str]]:
    """Write radiographs that storescu can send; the series of each study."""
    write_phantoms(folder, count, format="dicom", size=256)
    of_study: dict[str, set[str]] = {}
    for path in sorted(folder.glob("*.dcm")):
        image = dcmread(path, stop_before_pixels=True)
        if image.file_meta.TransferSyntaxUID.is_compressed:
            path.unlink()
        else:
            of_study.setdefault(image.StudyInstanceUID, set()).add(image.SeriesInstanceUID)
    return of_study


def _start(
    network: Namespace, address: str, *words: str | Path, **environment: str
) -> "subprocess.Popen[str]":
    """Start a server in the namespace and wait until `address` answers."""
    started = network.start(
        *words, env=os.environ | environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    asked = [sys.executable, "-c", ANSWERS, address]
    while subprocess.run(network.command(*asked), capture_output=True, check=False).returncode:
        assert started.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return started


@contextmanager
def viewing(folder: Path, files: Path, *options: str) -> Iterator[tuple[Namespace, str]]:
    """Run OHIF with the files in Orthanc and our service beside it; the namespace, and the viewer's address."""
    address, service = f"http://localhost:{VIEWER_PORT}", f"http://localhost:{SERVICE_PORT}"
    collection = folder / "collection"
    settings = {
        "CBIR_FRAME_ORIGINS": address,
        "CBIR_VIEWER_LINK": address + "/viewer?StudyInstanceUIDs={study}&initialSeriesInstanceUID={series}",
    }
    with namespace() as network, orthanc(network, folder / "orthanc"):
        network.run("storescu", "-aec", "ORTHANC", "127.0.0.1", str(DICOM), *sorted(files.glob("*.dcm")))
        network.run(*CBIR, "index", files, "--collection", collection, "--jobs", "1", *options)
        serve = [*CBIR, "serve", "--collection", collection, "--port", str(SERVICE_PORT)]
        servers = [
            _start(network, service + "/livez", *serve, **settings),
            _start(network, address, sys.executable, "-m", "tests.e2e.ohif", str(VIEWER_PORT), service),
        ]
        yield network, address
        for server in servers:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    Viewer.address = sys.argv[2]
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Viewer).serve_forever()
