"""A Milvus server of the package milvus, in a temporary folder and a network namespace of its own.

It listens on every address there is, so a relay on a loopback port leads into the namespace.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.server_guard import ServerGuard

TRIES, START_SECONDS = 3, 150
SCRIPT = Path(__file__).with_name("relay.py")
RELAY = 'ip link set lo up && exec "$0" "$@"'  # a namespace begins without a network
HEALTH = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9091/healthz', timeout=5).read())"


def missing_reason() -> str | None:
    """Why the server cannot run here, None if it can."""
    if sys.platform != "linux":
        return "the Milvus server of the tests runs on Linux"
    missing = [name for name in ("milvus", "pymilvus") if not find_spec(name)]
    if missing:
        return f"{missing[0]} is not installed"
    made = ["unshare", "-n", "ip", "link", "set", "lo", "up"]
    if not shutil.which("nsenter") or subprocess.run(made, capture_output=True).returncode:
        return "no network namespace can be made here, and Milvus would listen on every address"
    return None


class MilvusServer:
    """The server; `port` on 127.0.0.1 leads to it."""

    def __init__(self) -> None:
        from milvus import MilvusServerConfig, _initialize_data_files

        self.folder = Path(tempfile.mkdtemp(prefix="cbir-milvus-"))
        config = MilvusServerConfig(data_dir=str(self.folder))
        with warnings.catch_warnings():  # it leaves sockets open where a port is taken
            warnings.simplefilter("ignore", ResourceWarning)
            config.resolve()
        _initialize_data_files(str(self.folder))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
            self._relay = subprocess.Popen(
                ["unshare", "-n", "sh", "-c", RELAY, sys.executable, SCRIPT, str(config.get("proxy_port"))],
                stdin=listener,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        self._guard = ServerGuard(self.folder)
        self._guard.watch(self._relay.pid)
        assert self._relay.stdout
        assert self._relay.stdout.readline()
        self._inside = ["nsenter", f"--net=/proc/{self._relay.pid}/ns/net"]
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"milvus://127.0.0.1:{self.port}"
        self.start()

    @property
    def pid(self) -> int:
        """Process of the server."""
        assert self._process
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether its process runs; a server may end by an error of its own."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server, and wait until it is healthy; a try that ends or hangs is followed by another."""
        for _ in range(TRIES):
            self._process = self._started()
            self._guard.watch(self._relay.pid, self._process.pid)
            if (reason := self._wait()) is None:
                return
            log = (self.folder / "log").read_text(errors="replace")[-2000:]
            print(f"Milvus was started in vain: {reason}; the end of its log:\n{log}", file=sys.stderr)
            self.kill()
        raise AssertionError(f"Milvus did not start in {TRIES} tries; the last one {reason}:\n{log}")

    def _started(self) -> "subprocess.Popen[bytes]":
        programs = self.folder / "bin"
        variables: dict[str, Any] = {
            **os.environ,
            "DEPLOY_MODE": "STANDALONE",
            "MILVUS_RUN_DIR": str(self.folder / "run"),
            "LD_LIBRARY_PATH": str(programs),
        }
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*self._inside, programs / "milvus", "run", "standalone"],
                env=variables,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait(self) -> str | None:
        """Wait until the server is healthy; return why it is not."""
        end = time.monotonic() + START_SECONDS
        while not self._is_healthy():
            if not self.runs:
                return f"ended with {self._process and self._process.returncode}"
            if time.monotonic() > end:
                return f"was not healthy after {START_SECONDS} seconds"
            time.sleep(0.5)  # each look starts a process
        return None

    def _is_healthy(self) -> bool:
        asked = subprocess.run([*self._inside, sys.executable, "-S", "-c", HEALTH], capture_output=True)
        return b"OK" in asked.stdout

    def kill(self) -> None:
        """Kill the server, as the kernel does when memory is short."""
        assert self._process
        if self.runs:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=300)
        self._guard.watch(self._relay.pid)

    def stop(self) -> None:
        """End the server and remove its files."""
        self.kill()
        self._guard.end()
        self._relay.wait(timeout=60)
        if self._relay.stdout:
            self._relay.stdout.close()
