"""Services and workers of one collection that go on over many kills."""

import os
import re
import signal
import time
from contextlib import suppress

import httpx

from reliability.forked import ForkedCommands

START_SECONDS = 120.0
RECOVERED_SECONDS = 180.0  # within which a service says that all of its parts answer again


class Part:
    """A command that stays until it is killed, and is started again."""

    def __init__(self, command: list[str], environment: dict[str, str], ready: str) -> None:
        self.command, self.environment, self.ready = command, environment, ready
        self._forked: ForkedCommands | None = None

    def start(self) -> None:
        """Start it unless it runs, without waiting."""
        if self._forked is None:
            self._forked = ForkedCommands([self.command], self.environment)

    def wait(self) -> str:
        """Wait until it is ready; return what it has printed."""
        assert self._forked
        text = self._forked.read_until(self.ready, START_SECONDS)
        if self.ready not in text:
            raise RuntimeError(f"{self.command[0]} does not start: {text[-500:]}")
        self._forked.drain()
        return text

    def kill(self) -> None:
        """Kill all of its processes."""
        if self._forked is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._forked.group, signal.SIGKILL)
            self._forked.__exit__(None, None, None)
            self._forked = None


class Service(Part):
    """`cbir serve` on a free port; `address` once it is ready."""

    address = ""

    def __init__(self, collection: str, environment: dict[str, str]) -> None:
        command = ["serve", "--collection", collection, "--port", "0"]
        super().__init__(command, environment, "Ctrl-C")

    def wait(self) -> str:
        """Wait until it is ready."""
        text = super().wait()
        match = re.search(r"The page: (\S+?)/?\n", text)
        assert match, text
        self.address = match.group(1)
        return text

    def wait_until_well(self) -> None:
        """Wait until its databases and its index answer."""
        until = time.monotonic() + RECOVERED_SECONDS
        health: object = "no answer"
        while time.monotonic() < until:
            with suppress(httpx.TransportError):
                health = httpx.get(f"{self.address}/healthz", timeout=30).json()
                if health == {"status": "ok"}:
                    return
            time.sleep(0.2)
        raise RuntimeError(f"a service has not recovered: {health}")


class Worker(Part):
    """`cbir admin worker`."""

    def __init__(self, collection: str, environment: dict[str, str]) -> None:
        super().__init__(["admin", "worker", "--collection", collection], environment, "Waiting for jobs")
