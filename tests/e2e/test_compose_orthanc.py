"""What deploy/compose.orthanc.yaml starts, without containers: its commands in its order, with its environment.

Folders are in place of volumes, and a network namespace is both the machine and the container of Orthanc.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydicom import dcmread

from cbir.evaluation.datasets.phantoms import write_phantoms
from tests.indexer.orthanc import Namespace, namespace, needs_orthanc
from tests.postgresql_server import UNPRIVILEGED, missing_reason, server_programs
from tests.project.compose import interpolated, read_compose
from tests.project.dockerfile import DOCKERFILE, ROOT, lines

pytestmark = [
    needs_orthanc,
    pytest.mark.pacs,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing_reason()), reason=missing_reason() or "-"),
]

SERVICE, ORTHANC = "http://127.0.0.1:8000", "http://127.0.0.1:8042"
ASK = """
import sys, urllib.error, urllib.request
address, authorization, kind, file = sys.argv[1:]
headers = {"Content-Type": kind} | ({"Authorization": authorization} if authorization else {})
request = urllib.request.Request(address, open(file, "rb").read() if file else None, headers)
try:
    print(urllib.request.urlopen(request, timeout=60).read().decode())
except urllib.error.HTTPError as error:
    print(error.code)
except OSError:
    print("null")
"""


class Machine:
    """The services of the compose files as processes of a namespace, with folders below `folder` as volumes."""

    def __init__(self, network: Namespace, folder: Path) -> None:
        self.network, self.folder = network, folder
        self.services = read_compose("compose.yaml", "deploy/compose.orthanc.yaml")["services"]
        self.processes: dict[str, subprocess.Popen[str]] = {}
        programs = folder / "bin"
        programs.mkdir()
        (programs / "cbir").write_text(f'#!/bin/sh\nexec {sys.executable} -m cbir.api.main "$@"\n')
        (programs / "cbir").chmod(0o755)
        path = f"{programs}:{server_programs()}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        self.environment = {"PATH": path, "PYTHONPATH": str(ROOT), "CBIR_DECODERS": "1"}
        self.mounted = self._mount()

    def _mount(self) -> dict[str, Path]:
        """Make a folder for each volume, and copy the files; return them by their paths in the containers."""
        volumes = [
            volume.split(":")[:2] for name in self.services for volume in self.services[name]["volumes"]
        ]
        mounted = {
            target: self.folder / target.strip("/")
            for source, target in volumes
            if (source, target) != ("archive", "/data")  # makes the folder of Orthanc, nothing else
        }
        for source, target in volumes:
            folder = mounted[target].parent if (ROOT / source).is_file() else mounted[target]
            folder.mkdir(exist_ok=True, parents=True)
        mounted["/var/run/postgresql"].chmod(0o1777)  # as in the image
        self.mounted = mounted
        for source, target in volumes:
            if (ROOT / source).is_file():
                text = self.here((ROOT / source).read_text())
                mounted[target].write_text(text.replace('"StableAge": 60', '"StableAge": 1'))
                mounted[target].chmod(0o755)
        return mounted

    def here(self, text: str) -> str:
        """Return a text of a container with the paths of this machine."""
        targets = "|".join(sorted(map(re.escape, self.mounted), key=len, reverse=True))
        return re.sub(rf"(?<![\w.])(?:{targets})(?![\w.-])", lambda found: str(self.mounted[found[0]]), text)

    def of(self, service: str) -> tuple[list[str], dict[str, Any]]:
        """Return the command of a service, its environment and its folder."""
        options = self.services[service]
        entry = options.get("entrypoint") or json.loads(lines(DOCKERFILE, "ENTRYPOINT")[-1])
        variables = {"CBIR_STATE_FOLDER": "/data/state"} | options.get("environment", {})
        folder = self.folder / options.get("working_dir", "/").strip("/")
        return (
            [self.here(interpolated(word)) for word in [*entry, *options["command"]]],
            {"env": self.environment | {k: self.here(v) for k, v in variables.items()}, "cwd": folder},
        )

    def run(self, service: str) -> str:
        """Run a service that ends, and return what it printed."""
        words, options = self.of(service)
        return self.network.run(*words, **options)

    def start(self, service: str, *words: str, **options: Any) -> None:
        """Start a service that goes on, by its own command unless `words` are given."""
        if not words:
            own, options = self.of(service)
            words = tuple(own)
        with (self.folder / f"{service}.log").open("w") as log:
            self.processes[service] = self.network.start(*words, stdout=log, stderr=log, **options)

    def start_postgres(self) -> None:
        """Do what the image of PostgreSQL does: make the server's folder, start the server, run the scripts."""
        _, options = self.of("postgres")
        variables = options["env"]
        password = Path(variables["POSTGRES_PASSWORD_FILE"])
        data, socket = (self.mounted[f"/var/{name}/postgresql"] for name in ("lib", "run"))
        shutil.chown(data, UNPRIVILEGED)
        user = ("setpriv", f"--reuid={UNPRIVILEGED}", "--clear-groups")  # the server refuses to run as root
        options["cwd"] = data
        initdb = ("initdb", "--username=postgres", f"--pwfile={password}", "--no-sync", "--locale=C.UTF-8")
        where = ("-D", str(data / "18"))
        self.network.run(*user, *initdb, variables["POSTGRES_INITDB_ARGS"], *where, **options)
        (command,) = self.services["postgres"]["command"]
        self.start("postgres", *user, command, *where, "-k", str(socket), **options)
        script = self.mounted["/docker-entrypoint-initdb.d/create-database.sh"]
        check = self.services["postgres"]["healthcheck"]["test"][1:]
        self.until(
            lambda: not subprocess.run(self.network.command(*check), env=variables, check=False).returncode
        )
        options["env"] = variables | {"PGHOST": str(socket), "PGPASSWORD": password.read_text()}
        self.network.run("sh", script, **options)

    def until(self, true: Callable[[], Any]) -> Any:
        """Wait until a function returns something, while all services run; return it."""
        end = time.monotonic() + 120
        while not (result := true()):
            ended = [name for name, process in self.processes.items() if process.poll() is not None]
            if ended or time.monotonic() > end:
                logs = {name: (self.folder / f"{name}.log").read_text()[-3000:] for name in self.processes}
                pytest.fail(f"ended: {ended}; {logs}")
            time.sleep(0.3)
        return result

    def ask(self, address: str, authorization: str = "", file: Path | str = "", kind: str = "") -> Any:
        """Return what a service answers, or its status if that is an error; None if it does not answer."""
        return json.loads(self.network.run(sys.executable, "-c", ASK, address, authorization, kind, file))


@pytest.fixture
def machine() -> Iterator[Machine]:
    folder = Path(tempfile.mkdtemp(prefix="cbir-compose-"))  # pytest's own are closed to the server's user
    folder.chmod(0o711)
    with namespace() as network:
        made = Machine(network, folder)
        try:
            yield made
        finally:
            for process in reversed(made.processes.values()):
                process.terminate()
                try:
                    process.communicate(timeout=60)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
    shutil.rmtree(folder)


def test_a_study_that_is_sent_to_orthanc_can_be_searched(machine: Machine, tmp_path: Path) -> None:
    write_phantoms(tmp_path, 6, format="dicom", size=64)
    first, *others, last = sorted(tmp_path.glob("*.dcm"))
    machine.run("secrets")
    machine.start_postgres()
    machine.start("orthanc")
    secret = (machine.mounted["/run/secrets"] / "orthanc_password").read_text()
    password = f"Basic {b64encode(f'cbir:{secret}'.encode()).decode()}"
    machine.until(lambda: machine.ask(f"{ORTHANC}/system", password))
    assert machine.ask(f"{ORTHANC}/system") == 401, "nobody has it without the password"

    def send(file: Path) -> None:
        assert machine.ask(f"{ORTHANC}/instances", password, file, "application/dicom")["Status"] == "Success"

    send(first)
    machine.run("prepare")
    machine.start("cbir")
    machine.until(lambda: machine.ask(f"{SERVICE}/readyz"))
    assert len(machine.ask(f"{SERVICE}/v1/images")["items"]) == 1, "what was there before"

    machine.start("follow")
    for file in (*others, last):
        send(file)
    machine.until(lambda: len(machine.ask(f"{SERVICE}/v1/images")["items"]) == 6)
    results = machine.ask(f"{SERVICE}/v1/search?k=9", file=last, kind="application/dicom")["results"]
    others_uids = {str(dcmread(file).SOPInstanceUID) for file in (first, *others)}
    assert {hit["dicom"]["instance"] for hit in results} == others_uids, "all but the query itself"
    for log in machine.folder.glob("*.log"):
        assert secret not in log.read_text()
    secrets = {path.name: path.read_text() for path in machine.mounted["/run/secrets"].iterdir()}
    machine.run("secrets")
    again = {path.name: path.read_text() for path in machine.mounted["/run/secrets"].iterdir()}
    assert again == secrets, "a second start keeps the secrets"
