"""Take away what macOS or Windows lack, in this process and in those that it starts.

Python imports this module at its start, from PYTHONPATH. Nothing is put in place of what is taken, but for
`msvcrt.locking`, which locks the whole file by flock. `os.name` stays, since pathlib chooses
its classes by it; so does /proc, and what numpy and the standard library call on Linux.
"""

import os
import select
import signal
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

ONLY_LINUX = {
    os: "eventfd memfd_create posix_fadvise posix_fallocate sched_getaffinity sched_setaffinity O_TMPFILE O_DIRECT",
    select: "epoll POLLRDHUP",
}
NOT_WINDOWS = {
    os: "fork forkpty geteuid getuid getegid getgid chown fchown lchown fchmod pread pwrite sync nice mkfifo statvfs "
    "getloadavg killpg setsid O_NONBLOCK O_CLOEXEC O_NOFOLLOW O_DIRECTORY O_SYNC O_DSYNC",
    select: "poll",
    signal: "SIGHUP SIGUSR1 SIGUSR2 SIGPIPE SIGALRM SIGQUIT SIGCHLD setitimer alarm",
}
MODULES_NOT_WINDOWS = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog")


def take(names_by_module: dict[ModuleType, str]) -> None:
    """Delete names of modules."""
    for module, names in names_by_module.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)


def locking_module() -> ModuleType:
    """Return a module `msvcrt` with its function `locking`."""
    import fcntl

    msvcrt: Any = ModuleType("msvcrt")
    msvcrt.LK_LOCK, msvcrt.LK_NBLCK = 1, 2

    def locking(file: int, mode: int, count: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if mode == msvcrt.LK_NBLCK else 0))

    msvcrt.locking = locking
    return msvcrt


take(ONLY_LINUX)
if os.environ["CBIR_TEST_SYSTEM"] == "windows":
    for name in (
        "subprocess",
        "multiprocessing.popen_spawn_posix",
    ):  # which choose by the system how to start
        import_module(name)
    stand_in, platform = locking_module(), sys.platform
    take(NOT_WINDOWS)
    for name in MODULES_NOT_WINDOWS:
        sys.modules[name] = None  # type: ignore[assignment]
    sys.modules["msvcrt"], sys.platform = stand_in, "win32"
    import_module("cbir.system.files")
    del sys.modules["msvcrt"]  # the standard library would take it for Windows
    sys.platform = platform
