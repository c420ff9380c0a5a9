"""Ends a server of the tests with the tests' own process, however that ends: by Ctrl-C, a time limit or `kill -9`."""

import subprocess
import sys
from pathlib import Path

# Ctrl-C reaches neither the servers nor this program, which are in groups of their own.
PROGRAM = """
import os, shutil, signal, sys, time
groups = [line.split() for line in sys.stdin]  # until the tests' process closes it, or has ended
for group in groups[-1] if groups else ():
    try:
        os.killpg(int(group), signal.SIGKILL)
    except ProcessLookupError:
        pass
end = time.monotonic() + 20
while os.path.exists(sys.argv[1]) and time.monotonic() < end:  # processes that end meanwhile may add files
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    time.sleep(0.02)
"""


class ServerGuard:
    """Waits for the end of this process; then kills groups of processes and removes a folder."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", PROGRAM, folder],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def watch(self, *groups: int) -> None:
        """Name the groups to kill, instead of those named before."""
        assert self._process.stdin
        print(*groups, file=self._process.stdin, flush=True)

    def end(self) -> None:
        """Kill the groups and remove the folder now."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(timeout=300)
