"""Build and control the preloaded library of shim.c."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from enum import IntEnum
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
VARIABLE = "CBIR_FAULT_SHIM"  # set in processes that run with the library
# Threads of these libraries would not survive a fork.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Mode(IntEnum):
    """Outcomes of the chosen call, as in shim.c.

    once: it fails. always: it and all later ones fail. short: half is written. kill: the process is killed before it.
    torn: half is written, then the process is killed.
    """

    off = 0
    once = 1
    always = 2
    short = 3
    kill = 4
    torn = 5


def obstacle() -> str | None:
    """Return why the library cannot be used here; None if it can."""
    if not sys.platform.startswith("linux"):
        return "calls are intercepted on Linux only (LD_PRELOAD)"
    if shutil.which("cc") is None:
        return "there is no C compiler (cc)"
    return None


def run_preloaded(script: str, arguments: list[str], folder: Path) -> int:
    """Compile the library into `folder` and run a Python script again with it; return its exit code.

    Parameters
    ----------
    script : str
        Path of the script.
    arguments : list of str
        Its arguments.
    folder : Path
        Existing folder.
    """
    library = folder / "shim.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
    environment = os.environ | ONE_THREAD | {"LD_PRELOAD": str(library), VARIABLE: str(folder)}
    process = subprocess.Popen([sys.executable, script, *arguments], env=environment)
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the script, which ends in order
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, handler)


class Shim:
    """The library in this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.shim_calls.restype = self._library.shim_fired.restype = ctypes.c_long

    def watch(self, folder: Path) -> None:
        """Count calls on files below `folder` from now on."""
        self._library.shim_watch(os.fsencode(folder.resolve()))

    def arm(self, number: int, mode: Mode, error: int = 0) -> None:
        """Let the call with this number, from now on, do what `mode` says; it fails with errno `error`."""
        self._library.shim_arm(ctypes.c_long(number), int(mode), error)

    def disarm(self) -> None:
        """Let every call pass; calls are counted from zero again."""
        self.arm(0, Mode.off)

    @property
    def calls(self) -> int:
        """Calls since the last `arm`."""
        return int(self._library.shim_calls())

    @property
    def fired(self) -> int:
        """Calls since the last `arm` that did not do what they should."""
        return int(self._library.shim_fired())

    def trace(self, path: Path | None) -> None:
        """Record all calls in a file; None ends that."""
        self._library.shim_trace(os.fsencode(path) if path else None)

    def mark(self, text: str) -> None:
        """Write a mark into the trace."""
        self._library.shim_mark(text.encode())
