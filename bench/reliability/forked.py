"""Commands of cbir in processes that are forked with all modules loaded, to be killed."""

import multiprocessing
import multiprocessing.reduction
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psutil

PRELOADED = [
    "cbir.api.main",
    "cbir.api.commands.manage_collection",
    "indexer.index_command",
    "indexer.receive.receive_command",
    "service.server.service_commands",
    "service.app",
    "service.server.http_server",
    "cbir.store.collection",
    "cbir.store.upkeep.verify",
    "indexer.index_request",
    "indexer.index_run",
]
START_SECONDS = 60.0


class ForkedCommands:
    """A process group that runs commands of cbir one after the other, and prints `exit CODE` after each.

    Parameters
    ----------
    commands : sequence of sequences of str
        Arguments of each command, as on the command line. The first that fails is the last.
    environment : dict, optional
        Variables to add to the environment.
    """

    def __init__(self, commands: Sequence[Sequence[str]], environment: dict[str, str] | None = None) -> None:
        self.count = len(commands)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        reader, writer = os.pipe()
        with os.fdopen(writer, "wb") as end:
            sending, receiving = context.Pipe()
            self.process = context.Process(
                target=_run_commands, args=(receiving, [list(each) for each in commands], environment or {})
            )
            self.process.start()
            receiving.close()
            multiprocessing.reduction.send_handle(sending, end.fileno(), self.process.pid)
            sending.close()
        self._output = os.fdopen(reader, "rb", buffering=0)
        self._text = b""

    def __enter__(self) -> "ForkedCommands":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._output.close()

    @property
    def group(self) -> int:
        """Number of the process group, and of its first process."""
        assert self.process.pid is not None
        return self.process.pid

    def read_until(self, text: str, seconds: float = START_SECONDS) -> str:
        """Return the output up to its end or the line with `text`; raises TimeoutError."""
        until = time.monotonic() + seconds
        while text.encode() not in self._text and self._read(until):
            pass
        return self._text.decode(errors="replace")

    def _read(self, until: float) -> bool:
        """Read what is there; False at the end of the output."""
        left = until - time.monotonic()
        if left <= 0 or not select.select([self._output], [], [], left)[0]:
            raise TimeoutError(f"no answer from {self.process.name}: {self._text[-500:]!r}")
        data = self._output.read(1 << 16)
        self._text += data
        return bool(data)

    def drain(self) -> None:
        """Read what is there, so that commands which stay never wait for a reader."""
        while select.select([self._output], [], [], 0)[0] and self._read(time.monotonic() + 1):
            pass

    def uses(self, folder: Path) -> bool:
        """Return whether a process of the commands has a file below `folder` open, or beside it while it is made."""
        with suppress(psutil.Error):
            leader = psutil.Process(self.group)
            for process in (leader, *leader.children(recursive=True)):
                if any(file.path.startswith(str(folder)) for file in process.open_files()):
                    return True
        return False

    def kill(self) -> str:
        """Kill every process of the group, as `kill -9` does; return what they have printed."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, signal.SIGKILL)
        self.process.kill()
        self.process.join()
        with suppress(TimeoutError):
            while self._read(time.monotonic() + 20):
                pass
        return self._text.decode(errors="replace")


def _run_commands(receiving: object, commands: list[list[str]], environment: dict[str, str]) -> None:
    os.setsid()
    output = multiprocessing.reduction.recv_handle(receiving)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    os.environ.update(environment)
    import cbir.api.main
    from cbir.store.views import snapshot_build

    snapshot_build.CODES_FROM = (
        1  # small snapshots have the files of large ones; not in processes that it spawns
    )
    sys.modules["__main__"] = cbir.api.main  # which import this, not the benchmark
    for arguments in commands:
        sys.argv = ["cbir", *arguments]
        code: object = 0
        try:
            cbir.api.main.main()
        except SystemExit as end:
            code = end.code or 0
        print(f"\nexit {code}", flush=True)
        if code != 0:
            break
