"""What the Dockerfile, the compose file and the systemd unit do, done in a clean folder.

There is no container engine in the tests: the same steps run here. Copy what .dockerignore lets through, install it
into a new environment, serve. Installing downloads some hundred megabytes, so it is done where CBIR_TEST_INSTALL is
set. tests/project/test_container.py checks the files themselves.
"""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from cbir.store import Collection
from service.access.token_stores import Scope, TokenStore
from tests.project.dockerfile import DOCKERFILE, ROOT, context, lines
from tests.service.conftest import indexed, pictures, serving
from tests.service.test_access_start import certificate

__all__ = ["certificate", "indexed", "pictures"]  # fixtures of the service's tests, used here too

UNIT = (ROOT / "deploy" / "cbir.service").read_text()
HEALTHCHECK = [sys.executable, str(ROOT / "deploy" / "healthcheck.py")]


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    program = tmp_path / "cbir"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "cbir.service"
    unit.write_text(UNIT.replace("/opt/cbir/bin/cbir", str(program)))
    said = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=400
    )
    assert said.returncode == 0, said.stderr
    assert "cbir.service" not in said.stderr, said.stderr


def unhealthy(folder: Path, **environment: str) -> bytes:
    """What the health check complains of; nothing where all is well."""
    # Only what a container has: the rest of the environment is not to help.
    said = subprocess.run(
        HEALTHCHECK, cwd=folder, env={"PATH": "/usr/bin:/bin"} | environment, capture_output=True, timeout=400
    )
    assert bool(said.returncode) == bool(said.stderr), said
    assert b"Traceback" not in said.stderr
    return said.stderr


def test_health_is_what_readyz_says(indexed: Path, tmp_path: Path) -> None:
    with serving(indexed) as running:
        assert not unhealthy(tmp_path, CBIR_PORT=str(running.port))
        assert not unhealthy(tmp_path, CBIR_PORT=str(running.port), http_proxy="http://127.0.0.1:9")
        (tmp_path / "cbir.toml").write_text(f"port = {running.port}\n")
        assert not unhealthy(tmp_path)
    assert b"refused" in unhealthy(tmp_path)
    assert b"port" in unhealthy(tmp_path, CBIR_PORT="none")


def test_health_of_a_service_that_others_reach(
    indexed: Path, tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    tokens = TokenStore(tmp_path)
    tokens.create([Scope.search])
    settings = {
        "CBIR_HOST": "0.0.0.0",
        "CBIR_ALLOWED_HOSTS": "cbir.example.org",
        "CBIR_TLS_CERTIFICATE": str(certificate[0]),
        "CBIR_TLS_KEY": str(certificate[1]),
        "CBIR_STATE_FOLDER": str(tmp_path),
        "CBIR_DECODERS": "1",
    }
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        settings["CBIR_PORT"] = str(free.getsockname()[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "cbir.api.main", "serve", "--collection", str(indexed)],
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        assert not unhealthy(tmp_path, **settings)
    finally:
        process.terminate()
        process.communicate(timeout=300)
    assert unhealthy(tmp_path, **settings)


@pytest.fixture
def prepare(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run deploy/prepare.sh, with folders of the test in place of those of the container."""
    script = tmp_path / "prepare.sh"
    text = (ROOT / "deploy" / "prepare.sh").read_text()
    script.write_text(
        text.replace("/data/", f"{tmp_path}/data/").replace(" /images ", f" {tmp_path}/images ")
    )
    for folder in ("data", "images"):
        (tmp_path / folder).mkdir()

    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        variables = {"PATH": path, "CBIR_STATE_FOLDER": str(tmp_path / "data" / "state")} | environment
        command = ["sh", str(script)]
        return subprocess.run(
            command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=400
        )

    return run


def test_a_collection_is_made_before_the_service_starts(
    prepare: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, pictures: list[Path]
) -> None:
    (tmp_path / "images").rmdir()
    missing = prepare()
    assert missing.returncode == 1
    assert "there is no file or folder" in missing.stderr, "the service does not start, and this says why"
    (tmp_path / "images").mkdir()
    for picture in pictures[:3]:
        shutil.copy(picture, tmp_path / "images")
    (tmp_path / "images" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert prepare().returncode == 0, "images that cannot be read do not prevent it"
    with Collection(tmp_path / "data" / "collection") as collection:
        assert len(collection) == 3
    shutil.rmtree(tmp_path / "images")
    again = prepare()
    assert (again.returncode, again.stdout) == (0, ""), "it is made once"


@pytest.mark.parametrize("left", ["last-good", "originals", "patient.key"])
def test_nothing_is_made_over_what_is_left_of_a_collection(
    prepare: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, pictures: list[Path], left: str
) -> None:
    shutil.copy(pictures[0], tmp_path / "images")
    collection = tmp_path / "data" / "collection"
    (collection / left).mkdir(parents=True)
    (collection / "collection.sqlite").touch()
    prepared = prepare()
    if left == "last-good":  # the service searches in it
        assert prepared.returncode == 0
    else:
        assert prepared.returncode == 1
        assert left in prepared.stderr
    assert not (collection / "collection.sqlite").stat().st_size


def test_a_service_for_others_is_prepared_with_a_token(
    prepare: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "data" / "collection").write_text("an alias")
    assert prepare().returncode == 0
    without = prepare(CBIR_TLS_CERTIFICATE="/tls/chain.pem")
    assert without.returncode == 1
    assert "cbir admin token create" in without.stderr
    TokenStore(tmp_path / "data" / "state").create([Scope.search])
    assert prepare(CBIR_TLS_CERTIFICATE="/tls/chain.pem").returncode == 0


def test_the_commands_of_image_and_unit_are_there(indexed: Path, tmp_path: Path) -> None:
    """What is started is `cbir serve --collection FOLDER`, and both end it with the signal of Ctrl-C."""
    entry, command = (json.loads(lines(DOCKERFILE, name)[-1]) for name in ("ENTRYPOINT", "CMD"))
    (start,) = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)
    assert [*entry, *command][:3] == ["cbir", "serve", "--collection"]
    assert shlex.split(start)[1:3] == ["serve", "--collection"]
    assert lines(DOCKERFILE, "STOPSIGNAL") == ["SIGINT"]
    assert "KillSignal=SIGINT" in UNIT


@pytest.mark.timeout(1200)
def test_a_clean_install_serves(tmp_path: Path, indexed: Path, pictures: list[Path]) -> None:
    if not os.environ.get("CBIR_TEST_INSTALL"):
        pytest.skip("CBIR_TEST_INSTALL is not set: installing downloads some hundred megabytes")
    source, place = context(tmp_path / "src"), tmp_path / "opt"
    # Of the build stage; the other is about users and folders of the container.
    steps = [step for step in lines(DOCKERFILE, "RUN") if "/opt/" in step or step.startswith("IFS")]
    assert len(steps) == 4
    script = "\n".join(["EXTRAS=pacs,evaluate", *(f"( {step} )" for step in steps)])
    script = script.replace("/opt", str(place)).replace("/wheels", f"{tmp_path}/wheels")
    script = script.replace("python -m venv", f"{sys.executable} -m venv")
    subprocess.run(["sh", "-eu", "-c", script], cwd=source, check=True, timeout=900)
    folder = tmp_path / "data"
    program = [str(place / "cbir" / "bin" / "cbir")]
    indexing = [*program, "index", *map(str, pictures), "--collection", str(folder / "collection")]
    folder.mkdir()
    subprocess.run(indexing, cwd=folder, check=True, timeout=400, env={"PATH": "/usr/bin:/bin"})
    process = subprocess.Popen(
        [*program, "serve", "--collection", str(folder / "collection"), "--port", "0"],
        cwd=folder, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1].rstrip("/")
        sent = httpx.post(f"{address}/v1/search?k=3", files={"image": pictures[0].read_bytes()})
        assert len(sent.json()["results"]) == 3
        assert httpx.get(f"{address}/").status_code == 200
    finally:
        process.terminate()
        process.communicate(timeout=300)
