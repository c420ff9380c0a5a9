"""The check of the distribution's name, against a server that answers as PyPI does."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from release.check_name import main, owner_problem, published

PROJECT = {"name": "cbir", "urls": {"Source": "https://github.com/cbir-contributors/cbir"}}
KNOWN = {
    "ours": {"project_urls": {"Source": "https://github.com/cbir-contributors/cbir/"}, "home_page": None},
    "theirs": {"project_urls": None, "home_page": "https://example.org", "summary": "Birds"},
}


class Index(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = self.path.split("/")[1]
        self.send_response(200 if name in KNOWN else 503 if name == "down" else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"info": KNOWN.get(name, {})}).encode())

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def index() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_name_is_free_ours_or_taken(index: str) -> None:
    assert owner_problem(PROJECT, published("free", index)) is None
    assert owner_problem(PROJECT, published("ours", index)) is None
    assert "another project's (Birds)" in str(owner_problem(PROJECT, published("theirs", index)))


def test_an_index_that_cannot_be_asked_is_no_problem(index: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError, match="503"):
        published("down", index)
    main("http://127.0.0.1:9")
    assert "could not be asked" in capsys.readouterr().out
