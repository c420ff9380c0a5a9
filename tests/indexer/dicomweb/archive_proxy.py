"""A proxy before an archive, whose answers to chosen paths are statuses: `archive_proxy.py PORT TARGET RULES`.

RULES is a JSON file, read with every request: statuses by regular expression of the path. The paths that came are
written to standard output.
"""

import json
import re
import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        print(self.path, flush=True)
        rules: dict[str, int] = json.loads(Path(sys.argv[3]).read_text())
        for pattern, status in rules.items():
            if re.search(pattern, self.path):
                self._answer(status, "text/plain", b"as the test says")
                return
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length) if length else None
        headers = {
            name: self.headers[name] for name in ("Accept", "Authorization", "Range") if name in self.headers
        }
        request = urllib.request.Request(sys.argv[2] + self.path, body, headers, method=self.command)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                self._answer(response.status, response.headers["Content-Type"], response.read())
        except urllib.error.HTTPError as error:
            self._answer(error.code, error.headers.get("Content-Type", "text/plain"), error.read())
        except OSError:
            self._answer(502, "text/html", b"<title>502 Bad Gateway</title>")

    do_POST = do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Handler).serve_forever()
