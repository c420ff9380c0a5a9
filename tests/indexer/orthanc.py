"""Debian's Orthanc in a network namespace of its own: version 1.10.1 listens on every address there is."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.indexer.commands import without_progress

PLUGIN = Path("/usr/share/orthanc/plugins/libOrthancDicomWeb.so")
HTTP, DICOM, RECEIVER = 8042, 4242, 11112
URL = f"http://127.0.0.1:{HTTP}"
UNTIL_THE_TESTS_END = [sys.executable, "-c", "import sys; sys.stdin.read()"]


def why_not() -> str:
    """Why Orthanc cannot be run here; "" where it can."""
    for program in ("Orthanc", "storescu", "unshare", "nsenter", "ip"):
        if not shutil.which(program) and not Path("/usr/sbin", program).exists():
            return f"{program} is not installed (apt-get install orthanc orthanc-dicomweb dcmtk iproute2)"
    if not PLUGIN.exists():
        return "Orthanc's DICOMweb plugin is not installed (apt-get install orthanc-dicomweb)"
    if subprocess.run(
        ["unshare", "-n", "ip", "link", "set", "lo", "up"], capture_output=True, check=False
    ).returncode:
        return "no network namespace can be made here, and Orthanc would listen on every address"
    return ""


needs_orthanc = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")


class Namespace:
    """A network of one machine; what runs in it reaches nothing else."""

    def __init__(self) -> None:
        self.holder = subprocess.Popen(["unshare", "-n", *UNTIL_THE_TESTS_END], stdin=subprocess.PIPE)
        deadline = time.monotonic() + 20
        while not self._separate() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.run("ip", "link", "set", "lo", "up")

    def _separate(self) -> bool:
        here, there = Path("/proc/self/ns/net"), Path(f"/proc/{self.holder.pid}/ns/net")
        return here.readlink() != there.readlink()

    def command(self, *words: str | Path) -> list[str]:
        """The command that runs another one inside."""
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", *map(str, words)]

    def start(self, *words: str | Path, **options: Any) -> "subprocess.Popen[str]":
        """A process inside; the caller ends it."""
        return subprocess.Popen(self.command(*words), text=True, **options)

    def run(self, *words: str | Path, code: int = 0, **options: Any) -> str:
        """What a command printed inside, which must end with `code`."""
        done = subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=400, check=False, **options
        )
        assert done.returncode == code, done.stderr + done.stdout
        return done.stdout + without_progress(done.stderr)

    def get(self, path: str) -> Any:
        """What Orthanc answers to a GET, as JSON; None while it does not answer."""
        script = "import sys,urllib.request as u; print(u.urlopen(sys.argv[1],timeout=10).read().decode())"
        done = subprocess.run(
            self.command(sys.executable, "-c", script, URL + path),
            capture_output=True,
            text=True,
            check=False,
        )
        return json.loads(done.stdout) if done.returncode == 0 else None

    def close(self) -> None:
        """End it."""
        self.holder.kill()
        self.holder.communicate()


def start_orthanc(namespace: Namespace, folder: Path, **settings: Any) -> "subprocess.Popen[str]":
    """An Orthanc that answers; `settings` go over those that every test needs."""
    folder.mkdir(exist_ok=True)
    defaults = {
        "Name": "test",
        "StorageDirectory": str(folder / "storage"),
        "IndexDirectory": str(folder / "storage"),
        "HttpPort": HTTP,
        "DicomPort": DICOM,
        "RemoteAccessAllowed": False,
        "AuthenticationEnabled": False,
        "DicomAlwaysAllowFind": True,
        "DicomAlwaysAllowStore": True,
        "UnknownSopClassAccepted": True,
        "StableAge": 1,
        "Plugins": [str(PLUGIN)],
        "DicomWeb": {"Enable": True},
    }
    (folder / "orthanc.json").write_text(json.dumps(defaults | settings))
    with (folder / "log").open("w") as log:
        started = namespace.start("Orthanc", folder / "orthanc.json", stdout=log, stderr=log)
    deadline = time.monotonic() + 120
    while "Orthanc has started" not in (folder / "log").read_text() or namespace.get("/system") is None:
        assert started.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.05)
    return started


@contextmanager
def namespace() -> Iterator[Namespace]:
    """A namespace that is ended."""
    made = Namespace()
    try:
        yield made
    finally:
        made.close()


@contextmanager
def orthanc(within: Namespace, folder: Path, **settings: Any) -> Iterator["subprocess.Popen[str]"]:
    """An Orthanc that is ended."""
    started = start_orthanc(within, folder, **settings)
    try:
        yield started
    finally:
        started.kill()
        started.wait()
