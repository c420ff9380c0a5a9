"""A proxy on this machine, real nginx: with a host name of its own, and with a path before that of the service."""

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from flask.testing import FlaskClient

from cbir import settings
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from service.client import Client
from tests.service.conftest import serving

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
PROXIED = """
pid {folder}/nginx.pid; error_log {folder}/error.log; daemon off;
events {{}}
http {{
  access_log off; client_body_buffer_size 8m; proxy_max_temp_file_size 0;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  server {{
    listen 127.0.0.1:{port};
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header X-Forwarded-Proto $scheme;
    proxy_set_header X-Forwarded-Host $http_host;
    location / {{ proxy_pass {address}; }}
    location /silent/ {{ proxy_pass {address}/; }}
    location /kept/ {{ proxy_pass {address}; }}
    location /cbir/ {{
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Prefix /cbir;
      proxy_pass {address}/;
    }}
  }}
}}
"""
SENTENCE = "the service needs a host name of its own, without a path"
SECONDS = 60  # for nginx to listen


@contextmanager
def nginx(address: str, folder: Path) -> Iterator[str]:
    """Run nginx before the service at `address`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "nginx.conf").write_text(PROXIED.format(folder=folder, port=port, address=address))
    process = subprocess.Popen([str(NGINX), "-c", str(folder / "nginx.conf"), "-p", str(folder)])
    try:
        until = time.monotonic() + SECONDS
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, (folder / "error.log").read_text()
            assert time.monotonic() < until
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.slow
@pytest.mark.skipif(NGINX is None, reason="nginx is not installed (apt-get install nginx-light)")
def test_nginx_with_and_without_a_path(indexed: Path, pictures: list[Path], tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "state")
    _, token = tokens.create([Scope.search])
    environment = {
        "CBIR_REQUIRE_TOKENS": "true",
        "CBIR_STATE_FOLDER": str(tokens.file.parent),
        "CBIR_TRUSTED_PROXIES": "127.0.0.1",
    }
    with serving(indexed, **environment) as running, nginx(running.address, tmp_path) as address:
        with httpx.Client(base_url=address, timeout=60) as browser:
            page = browser.get("/login").text
            for style in re.findall(r'rel="stylesheet" href="([^"]+)"', page):
                assert browser.get(style).status_code == 200
            entered = browser.post("/login", data={"token": token}, headers={"Origin": address})
            assert (entered.status_code, entered.headers["location"]) == (303, "/")
            assert browser.get("/", headers={"Accept": "text/html"}).status_code == 200
            for path in (
                "/cbir/",
                "/cbir/login",
                "/cbir/v1/images",
                "/cbir/openapi.json",
                "/cbir/static/page.css",
            ):
                refused = browser.get(path)
                assert refused.status_code == 421, path
                assert "X-Forwarded-Prefix" in refused.text
                assert "give it a host name of its own, without a path" in refused.text
            silent = browser.get("/silent/login").text
            assert SENTENCE in silent, "seen where the style sheet, which hides it, is not loaded"
            assert browser.get("/kept/login").status_code == 404
        with Client(address, token) as client:
            assert client.search(str(pictures[0]), k=3).results


@pytest.mark.parametrize(("prefix", "status"), [("/cbir", 421), ("/a, /b", 421), ("/", 200), ("", 200)])
def test_the_path_that_a_trusted_proxy_names(indexed: Path, state: Path, prefix: str, status: int) -> None:
    app = create_app(indexed, settings.load(state_folder=state, trusted_proxies=["127.0.0.1"]))
    answer = app.test_client().get(
        "/healthz", headers={"X-Forwarded-Prefix": prefix, "X-Forwarded-For": "127.0.0.1"}
    )
    assert answer.status_code == status


def test_others_name_no_path(client: FlaskClient) -> None:
    """A page of another site could else make the service refuse what a browser asks."""
    other = {"REMOTE_ADDR": "203.0.113.9", "wsgi.url_scheme": "https"}
    answer = client.get("/v1/images", headers={"X-Forwarded-Prefix": "/cbir"}, environ_base=other)
    assert answer.status_code == 403


def test_the_sentence_is_hidden_by_the_style_sheet(client: FlaskClient) -> None:
    page = client.get("/").text
    assert '<p class="unstyled">You see this sentence' in page
    style = client.get(re.findall(r'rel="stylesheet" href="([^"]+)"', page)[0]).text
    assert re.search(r"\.unstyled\s*\{\s*display:\s*none", style)
