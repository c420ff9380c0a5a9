"""Misbehaving archives: endless, slow, redirecting or invalid responses."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cbir.errors import ArchiveFailed, InvalidInput
from cbir.ingest import archive_client
from cbir.ingest.archive_client import ArchiveClient

UIDS = "1.2", "1.3", "1.4"
SEEN: list[dict[str, str]] = []


class Bad(BaseHTTPRequestHandler):
    """Misbehave as the first part of the path says."""

    def do_GET(self) -> None:
        SEEN.append(dict(self.headers))
        how = self.path.split("/")[1]
        if how == "away":
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self.server.server_port}/endless")
            self.end_headers()
            return
        if how == "refuses":
            self.send_error(403)
            return
        self.send_response(200)
        self.end_headers()
        piece, pause = {"endless": (bytes(2**20), 0.0), "slow": (b"[", 0.05)}.get(how, (b"", 0.0))
        if how == "nonsense":
            self.wfile.write(b"[[1, 2")
        try:
            while piece:
                self.wfile.write(piece)
                time.sleep(pause)
        except OSError:
            return

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bad)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("how", "answered"),
    [
        ("endless", True),
        ("slow", False),
        ("away", True),
        ("refuses", True),
        ("nonsense", True),
        ("empty", True),
    ],
)
def test_misbehaving_archives_are_reported(address: str, how: str, answered: bool) -> None:
    requested = ArchiveClient(f"{address}/{how}", seconds=0.5 if how == "slow" else 60)
    began, count = time.monotonic(), len(SEEN)
    with pytest.raises(ArchiveFailed, match=address) as failed:
        requested.metadata(*UIDS)
    assert failed.value.answered is answered
    with pytest.raises(ArchiveFailed, match=address):
        requested.store(b"no object")
    assert time.monotonic() - began < 60
    assert len(SEEN) == count + 2  # a redirect is not followed


def test_a_redirect_is_named_and_not_followed(address: str) -> None:
    count = len(SEEN)
    target = address.replace("127.0.0.1", "localhost")
    with pytest.raises(ArchiveFailed, match=f"redirects to {target}.*configure that address"):
        ArchiveClient(f"{address}/away").rendered(*UIDS, None, 64)
    assert len(SEEN) == count + 1


@pytest.mark.parametrize("url", ["http://archive.example.org:8042/dicom-web", "http://127.0.0.1.example.org"])
def test_credentials_are_not_sent_in_the_clear(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ArchiveClient(url)
    monkeypatch.setenv(archive_client.TOKEN, "geheim")
    with pytest.raises(InvalidInput, match=f"{url} must begin with https://") as refused:
        ArchiveClient(url)
    assert "geheim" not in str(refused.value)
    ArchiveClient(url.replace("http:", "https:"))
    ArchiveClient("http://[::1]:8042")


def test_credentials_come_from_the_environment(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(archive_client.USER, "anna")
    monkeypatch.setenv(archive_client.PASSWORD, "geheim")
    with pytest.raises(ArchiveFailed) as failed:
        ArchiveClient(f"{address}/refuses").rendered(*UIDS, None, 64)
    assert SEEN[-1]["Authorization"] == "Basic YW5uYTpnZWhlaW0="
    assert "geheim" not in str(failed.value)
    monkeypatch.setenv(archive_client.TOKEN, "secret")
    with pytest.raises(InvalidInput, match=archive_client.TOKEN):
        ArchiveClient(address)
    monkeypatch.delenv(archive_client.USER)
    monkeypatch.setenv(archive_client.TOKEN, "ein Zettel\r\n")
    with pytest.raises(InvalidInput, match="is not valid"):
        ArchiveClient(address)
    monkeypatch.setenv(archive_client.TOKEN, "secret")
    with pytest.raises(ArchiveFailed):
        ArchiveClient(f"{address}/refuses").metadata(*UIDS)
    assert SEEN[-1]["Authorization"] == "Bearer secret"
