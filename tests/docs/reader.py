"""A terminal and a Python interpreter in which a reader follows a page."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.docs.blocks import INSTALL, SERVER, Block, statements

INTERPRETER = Path(__file__).with_name("interpreter.py")
READY = re.compile(r"Ctrl-C|receiving as |Orthanc has started")  # what servers print once they answer
POLL_SECONDS = 0.05


class BlockFailed(Exception):
    """A block failed or printed a traceback; the message has its text and what it printed."""


class Reader:
    """Runs the blocks of one page in order, in one folder.

    Commands of `sh` blocks share one shell, `python` blocks one interpreter. Servers run until the page ends.

    Parameters
    ----------
    folder : folder to start in
    scratch : empty folder outside `folder`, for output
    environment : variables of the processes
    installs : False leaves out lines that install something
    seconds : limit of a block of commands, and of the start of a server
    within : command that runs both inside something, such as a network namespace
    """

    def __init__(
        self,
        folder: Path,
        scratch: Path,
        environment: dict[str, str],
        *,
        installs: bool,
        seconds: float,
        within: Sequence[str] = (),
    ) -> None:
        self._scratch, self._installs, self._seconds, self._within = scratch, installs, seconds, within
        self._output = (scratch / "output").open("w+b")
        self._shell = subprocess.Popen(
            [*within, "bash", "--norc", "-e", "-o", "pipefail"],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=self._output,
            text=True,
            cwd=folder,
            env=environment,
            process_group=0,
        )
        self._python: subprocess.Popen[str] | None = None
        self._logs: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the shell, the interpreter and all servers, which are one process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        for process in filter(None, [self._shell, self._python]):
            process.communicate()
        self._output.close()

    def run(self, block: Block) -> str:
        """Run a block, or write it to its file, and return what it printed."""
        start = self._output.seek(0, os.SEEK_END)
        if block.file:
            (self._state()[0] / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            self._run_python(block)
        else:
            for part in self._parts(block.text):
                if SERVER.match(part):
                    self._start_server(part)
                else:
                    self._run_shell(part)
        printed = "".join([self._printed(start), *(log.read_text(encoding="utf-8") for log in self._logs)])
        if "Traceback (most recent call last)" in printed:
            raise BlockFailed(f"{block.text}\n{printed}")
        return printed

    def _parts(self, text: str) -> list[str]:
        """Split a block: each server is a part, and so are the commands between servers."""
        parts = [""]
        for statement in statements(text):
            if INSTALL.match(statement) and not self._installs:
                continue
            parts += [statement, ""] if SERVER.match(statement) else [parts.pop() + statement]
        return [part for part in parts if part.strip()]

    def _run_shell(self, script: str) -> None:
        start = self._output.seek(0, os.SEEK_END)
        file, done = self._scratch / "block.sh", self._scratch / "done"
        file.write_text(script, encoding="utf-8")
        done.unlink(missing_ok=True)
        line = f"source {shlex.quote(str(file))} < /dev/null; : > {shlex.quote(str(done))}"
        with contextlib.suppress(BrokenPipeError):  # a failed command has ended the shell
            print(line, file=self._shell.stdin, flush=True)
        deadline = time.monotonic() + self._seconds
        while not done.exists():
            if self._shell.poll() is not None or time.monotonic() > deadline:
                raise BlockFailed(f"{script}\n{self._printed(start)}")
            time.sleep(POLL_SECONDS)

    def _start_server(self, statement: str) -> None:
        log = self._scratch / f"server{len(self._logs)}"
        log.touch()  # the shell makes it behind our back, maybe after the first look
        self._logs.append(log)
        command = statement.rstrip().removesuffix("&")
        self._run_shell(f"{{ {command}\n}} > {shlex.quote(str(log))} 2>&1 &\n")
        deadline = time.monotonic() + self._seconds
        while not READY.search(log.read_text(encoding="utf-8")):
            if time.monotonic() > deadline or not self._running_server():
                raise BlockFailed(f"{statement}\n{log.read_text(encoding='utf-8')}")
            time.sleep(POLL_SECONDS)

    def _running_server(self) -> bool:
        """Say whether the server that was started last still runs."""
        try:
            self._run_shell("kill -0 $!\n")
        except BlockFailed:
            return False
        return True

    def _run_python(self, block: Block) -> None:
        start = self._output.seek(0, os.SEEK_END)
        if self._python is None:
            folder, environment = self._state()
            self._python = subprocess.Popen(
                # env looks for python3 in the PATH of the shell
                [*self._within, "env", "python3", str(INTERPRETER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._output,
                text=True,
                cwd=folder,
                env=environment,
                process_group=self._shell.pid,
            )
        file = self._scratch / f"line-{block.line}.py"
        file.write_text(block.text, encoding="utf-8")
        print(file, file=self._python.stdin, flush=True)
        assert self._python.stdout
        if self._python.stdout.readline() != "done\n":
            raise BlockFailed(f"{block.text}\n{self._printed(start)}")

    def _state(self) -> tuple[Path, dict[str, str]]:
        """Return the folder and the exported variables of the shell."""
        file = self._scratch / "state"
        self._run_shell(f"{{ pwd; env -0; }} > {shlex.quote(str(file))}\n")
        folder, _, variables = file.read_text(encoding="utf-8").partition("\n")
        return Path(folder), dict(line.split("=", 1) for line in variables.split("\0") if line)

    def _printed(self, start: int) -> str:
        self._output.flush()
        return (self._scratch / "output").read_bytes()[start:].decode(errors="replace")
