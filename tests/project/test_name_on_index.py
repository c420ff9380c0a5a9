"""Whose the name of the distribution is, by an index that answers here."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from release.name_on_index import state_of_name

OURS = "https://github.com/cbir-contributors/cbir"
PROJECTS = {
    "ours": {"version": "1.0.0", "project_urls": {"Source": OURS}},
    "theirs": {"version": "3", "home_page": "https://example.org", "project_urls": None},
}


class Index(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = self.path.split("/")[2]
        self.send_response(200 if name in PROJECTS else 500 if name == "broken" else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"info": PROJECTS.get(name)}).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Index)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("name", "usable", "said"),
    [
        ("free", True, "is free"),
        ("ours", True, "1.0.0"),
        ("theirs", False, "another project"),
        ("broken", True, "was not checked"),
    ],
)
def test_whose_a_name_is(index: str, name: str, usable: bool, said: str) -> None:
    may_use, line = state_of_name(name, OURS, index)
    assert may_use is usable
    assert said in line


def test_without_an_answer_the_release_goes_on() -> None:
    usable, line = state_of_name("cbir", OURS, "http://127.0.0.1:9")
    assert usable
    assert "was not checked" in line
