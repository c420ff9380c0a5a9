"""Networks fetched from Hugging Face: a server of the test that answers as the hub does."""

import hashlib
import http.server
import json
import re
import threading

import huggingface_hub.constants
import pytest
import transformers

from cbir.descriptors import encoders
from cbir.descriptors.encoders import parse_hub_address
from cbir.descriptors.encoders.hub.hub_network import fetch_network_files
from cbir.errors import InvalidInput
from cbir.system.files import file_sha256
from tests.cbir.descriptors.encoders.hub.test_transformers import SMALL, SQUASH, save

ADDRESS = parse_hub_address("hf:org/model")
REVISION = "0123456789" * 4


class Hub(http.server.ThreadingHTTPServer):
    """Serves one repository, org/model; `cut` is the number of bytes after which the next answer breaks off."""

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Answers)
        self.folder, self.cut, self.status, self.ranges = folder, None, 200, []


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers of the hub to what huggingface_hub asks."""

    def log_message(self, *arguments):
        """Print nothing."""

    def do_HEAD(self):
        self._answer(False)

    def do_GET(self):
        self._answer(True)

    def _answer(self, with_body):
        path = self.path.partition("?")[0]
        if "/org/model" not in path or self.server.status != 200:
            self.send_response(404 if "/org/model" not in path else self.server.status)
            code = "RepoNotFound" if "/org/model" not in path else "GatedRepo"
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if path.startswith("/api/"):
            self._send(json.dumps(self._describe(path)).encode(), {"Content-Type": "application/json"}, True)
            return
        content = (self.server.folder / path.rpartition("/")[2]).read_bytes()
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": REVISION}
        self._send(content, headers, with_body)

    def _describe(self, path):
        files = sorted(self.server.folder.iterdir())
        if "/tree/" in path:
            return [
                {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": "0"} for file in files
            ]
        return {"id": "org/model", "sha": REVISION, "siblings": [{"rfilename": file.name} for file in files]}

    def _send(self, content, headers, with_body):
        start = int(re.sub(r"\D", "", self.headers.get("Range", "0")) or 0)
        if start:
            self.server.ranges.append(start)
            headers = {**headers, "Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
        self.send_response(206 if start else 200)
        for name, value in {**headers, "Content-Length": len(content) - start}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if with_body and self.server.cut is not None and len(content) > self.server.cut:
            self.wfile.write(content[start : self.server.cut])
            self.server.cut = None
            self.close_connection = True
        elif with_body:
            self.wfile.write(content[start:])


@pytest.fixture
def hub(tmp_path, monkeypatch):
    save(tmp_path / "published", transformers.Dinov2Config(**SMALL), SQUASH, "apache-2.0")
    (tmp_path / "published" / "training.bin").write_bytes(b"not needed")
    with Hub(tmp_path / "published") as server:
        endpoint = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", endpoint)
        template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield server
        server.shutdown()


@pytest.mark.slow
def test_fetched_network_has_its_revision_on_the_card(hub, get):
    card = get("hf:org/model")
    assert card["source"] == f"hf:org/model at {REVISION}"
    assert card["sha256"] == file_sha256(hub.folder / "model.safetensors")
    assert card["licence"] == "apache-2.0"
    assert encoders.get("hf:org/model").dimensions == 32


def test_broken_download_is_resumed(hub, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 10_000)  # kept chunk by chunk
    hub.cut = 60_000
    snapshot = fetch_network_files(ADDRESS, "org/model")
    assert snapshot.weights.read_bytes() == (hub.folder / "model.safetensors").read_bytes()
    assert hub.ranges == [60_000]
    assert sorted(path.name for path in snapshot.folder.iterdir()) == [
        "README.md", "config.json", "model.safetensors", "preprocessor_config.json",
    ]  # fmt: skip


def test_cache_is_used_without_the_hub(hub, monkeypatch):
    online = fetch_network_files(ADDRESS, "org/model")
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    assert fetch_network_files(ADDRESS, "org/model") == online
    online.weights.resolve().write_bytes(b"nothing")
    with pytest.raises(InvalidInput, match=r"model.safetensors is damaged: its SHA-256"):
        fetch_network_files(ADDRESS, "org/model")


def test_files_to_fetch_are_named_without_the_hub(tmp_path):
    message = (
        rf"^hf:org/model cannot .* \(.*model.safetensors of .*--from.* {tmp_path}/hub/models--org--model$"
    )
    with pytest.raises(InvalidInput, match=message):
        fetch_network_files(ADDRESS, "org/model")


def test_refusals_of_the_hub_name_the_remedy(hub, get):
    with pytest.raises(InvalidInput, match=r"^Hugging Face has no network org/other, or .*: hf auth login$"):
        get("hf:org/other")
    hub.status = 403
    with pytest.raises(InvalidInput, match=r"accept its conditions on https://huggingface.co/org/model"):
        get("hf:org/model")
    hub.status = 200
    (hub.folder / "model.safetensors").unlink()
    with pytest.raises(InvalidInput, match=r"hf:org/model has not the files of a network"):
        get("hf:org/model")
