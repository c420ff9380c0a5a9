"""What deploy/compose-orthanc.yaml starts, process by process: Orthanc, PostgreSQL, and cbir beside them.

Commands, environments and scripts are those of the file; only addresses and folders of containers are replaced.
"""

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.indexer.orthanc import DICOM, Namespace, namespace, needs_orthanc, orthanc
from tests.indexer.receiving import file_of, slices
from tests.postgresql_server import PostgresqlServer, missing_reason

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "deploy" / "compose-orthanc.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
SEARCH = """
import json, sys, urllib.request as u
with u.urlopen(sys.argv[1] + "/v1/collections/archive/images", timeout=20) as answer:
    images = json.load(answer)["items"]
hits = []
if images:
    body = json.dumps({"image_id": images[0]["image_id"], "k": 10}).encode()
    asked = u.Request(sys.argv[1] + "/v1/collections/archive/search", body, {"Content-Type": "application/json"})
    with u.urlopen(asked, timeout=60) as answer:
        hits = json.load(answer)["results"]
print(json.dumps([len(images), len(hits)]))
"""
pytestmark = [
    needs_orthanc,
    pytest.mark.skipif(bool(missing_reason()), reason=missing_reason() or "-"),
]


def words(service: str) -> list[str]:
    """Entry point and command of a service; cbir's image has `cbir`."""
    options = SERVICES[service]
    return [*options.get("entrypoint", ["cbir"]), *options.get("command", [])]


class Machine:
    """Where the services of the file run: their volumes, their network and their database."""

    def __init__(self, folder: Path, network: Namespace, server: PostgresqlServer) -> None:
        self.network, self.server, self.folder = network, server, folder
        folder.mkdir()
        for name in ("bin", "secrets", "data"):
            (folder / name).mkdir(mode=0o700)
        program = folder / "bin" / "cbir"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m cbir.api.main "$@"\n')
        program.chmod(0o755)

    def local(self, text: str) -> str:
        """A text of the file with the addresses and folders of this machine."""
        address = r"postgresql\+psycopg://cbir@127\.0\.0\.1:5433/cbir\?"
        text = re.sub(address, lambda _: f"{self.server.url}&", text)
        for volume, place in (("/secrets", "secrets"), ("/data", "data")):
            text = re.sub(rf"^{volume}(?=/|$)", str(self.folder / place), text)
        return re.sub(r"^/orthanc/", f"{ROOT}/deploy/orthanc/", text)

    def environment(self, service: str) -> dict[str, str]:
        """The environment of a service."""
        named = {name: self.local(value) for name, value in SERVICES[service].get("environment", {}).items()}
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return {"PATH": path, "PYTHONPATH": str(ROOT), "SECRETS": str(self.folder / "secrets"), **named}

    def run(self, service: str) -> None:
        """Run a service that ends."""
        command = [self.local(word) for word in words(service)]
        self.network.run(*command, env=self.environment(service), cwd=self.folder / "data")

    @contextmanager
    def started(self, service: str) -> Iterator[Path]:
        """Start a service that goes on, yield its log, and end it as the container does."""
        command = [self.local(word) for word in words(service)]
        log = self.folder / f"{service}.log"
        with log.open("w") as file:
            process = self.network.start(
                *command, env=self.environment(service), cwd=self.folder / "data", stdout=file, stderr=file
            )
        try:
            yield log
            assert process.poll() is None, log.read_text()
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) in (0, 130), log.read_text()


def orthanc_settings(machine: Machine) -> dict[str, Any]:
    """Settings of Orthanc that its image makes of environment and secrets."""
    settings: dict[str, Any] = json.loads((machine.folder / "secrets" / "orthanc.json").read_text())
    for name, value in SERVICES["orthanc"]["environment"].items():
        if name.startswith("ORTHANC__"):
            key = "".join(part.capitalize() for part in name.removeprefix("ORTHANC__").split("_"))
            settings[key] = {"true": True, "false": False}.get(value, value)
    settings["StableAge"] = 1  # of 10: the test waits for it
    return settings


def test_a_stored_study_is_found_a_moment_later(tmp_path: Path, postgresql: PostgresqlServer) -> None:
    files = [tmp_path / f"{number}.dcm" for number in range(3)]
    for file, slice_ in zip(files, slices(3, 64), strict=True):
        file.write_bytes(file_of(slice_))
    with namespace() as network:
        machine = Machine(tmp_path / "machine", network, postgresql)
        machine.run("secrets")
        passwords = (machine.folder / "secrets" / "orthanc.json").read_text()
        machine.run("secrets")
        assert (machine.folder / "secrets" / "orthanc.json").read_text() == passwords
        with orthanc(network, tmp_path / "orthanc", **orthanc_settings(machine)):
            machine.run("prepare")
            with machine.started("watch"), machine.started("cbir") as log:
                network.run("storescu", "-aec", "ORTHANC", "127.0.0.1", str(DICOM), *map(str, files))
                found, end = [0, 0], time.monotonic() + 240
                while found[0] < len(files) and time.monotonic() < end:
                    address = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
                    if address:
                        found = json.loads(network.run(sys.executable, "-c", SEARCH, address[0]))
                    time.sleep(0.5)
        assert found == [len(files), len(files) - 1]
