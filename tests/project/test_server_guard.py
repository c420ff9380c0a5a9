"""The servers of the tests end with the tests, however these end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.postgresql_server import missing_reason
from tests.server_guard import ServerGuard

START = """
from tests.postgresql_server import PostgresqlServer
server = PostgresqlServer()
print(server.folder, flush=True)
input()
"""


def until_gone(folder: Path, server: psutil.Process) -> None:
    end = time.monotonic() + 60
    while folder.exists() or server.is_running():
        assert time.monotonic() < end, (list(folder.rglob("*")), server)
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_reason()), reason=missing_reason() or "-")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_server_ends_with_the_process_that_started_it(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", START],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout
        folder = Path(process.stdout.readline().strip())
        server = psutil.Process(int((folder / "data" / "postmaster.pid").read_text().split()[0]))
        process.send_signal(number)
    until_gone(folder, server)


@pytest.mark.skipif(os.name == "nt", reason="groups of processes of POSIX")
def test_what_is_no_longer_watched_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    guard = ServerGuard(folder)
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    ) as other:
        guard.watch(other.pid)
        guard.watch()
        guard.end()
        assert other.poll() is None
        assert not folder.exists()
        other.kill()
