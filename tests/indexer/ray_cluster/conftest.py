"""Two nodes of Ray, started once for all tests of this folder."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # 0: Ray takes 127.0.0.1 for this machine's address
TRIES = 3  # a node gives up when its agents need more than 15 seconds to start, as on a busy machine
KILLER, ENDLESS, SLOW, UNSEEN = "killer.png", "endless.png", "slow-", "unseen-"
HELD = f"{SLOW}held-"
HOLD = "hold"
HOOK = f"""
import os, pathlib, time
before, exists = pathlib.Path.stat, os.path.exists
def stat(self, **options):
    if self.name == {KILLER!r}: os._exit(11)
    if self.name.startswith({SLOW!r}): time.sleep(0.05)
    while self.name.startswith({HELD!r}) and exists(self.with_name({HOLD!r})): time.sleep(0.05)
    if self.name == {ENDLESS!r}: time.sleep(600)
    if self.name.startswith({UNSEEN!r}): raise FileNotFoundError(2, "No such file")
    return before(self, **options)
pathlib.Path.stat = stat
"""


@dataclass
class TwoNodes:
    """A running cluster. address: of its head. folder: of its logs."""

    address: str
    folder: Path
    process: "subprocess.Popen[str]"

    def tell(self, command: str) -> None:
        """Send a command of `two_nodes` and wait until it is done."""
        _pipe(self.process.stdin).write(f"{command}\n")
        _pipe(self.process.stdin).flush()
        assert _pipe(self.process.stdout).readline() == "done\n"


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


@pytest.fixture(scope="session", autouse=True)
def workers_not_niced() -> Iterator[None]:
    """Give Ray's workers their share of time beside other tests, which may leave none to processes of nice 15."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")
        yield


@pytest.fixture(scope="session")
def two_nodes(tmp_path_factory: pytest.TempPathFactory, workers_not_niced: None) -> Iterator[TwoNodes]:
    """Yield a cluster of two nodes with a CPU each.

    Their processes die when they touch a file KILLER, wait when they touch ENDLESS, are slow with those whose names
    begin with SLOW, wait with those of HELD while a file HOLD is beside them, and do not see those with UNSEEN.
    """
    hook = tmp_path_factory.mktemp("hook")
    (hook / "sitecustomize.py").write_text(HOOK)
    path = os.pathsep.join(filter(None, (str(hook), os.environ.get("PYTHONPATH"))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(LOOPBACK, "0")
        yield from _run_cluster(os.environ | {"PYTHONPATH": path}, hook / "errors")


def _run_cluster(environment: dict[str, str], errors: Path) -> Iterator[TwoNodes]:
    with ExitStack() as stack:
        for _ in range(TRIES):
            process = stack.enter_context(_started(environment, errors))
            address, _, folder = _pipe(process.stdout).readline().strip().partition(" ")
            if address:
                break
            print(f"the cluster was started in vain:\n{errors.read_text()[-2000:]}", file=sys.stderr)
        assert address, f"the cluster did not start in {TRIES} tries"
        yield TwoNodes(address, Path(folder), process)
        _pipe(process.stdin).close()
        try:
            process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _started(environment: dict[str, str], errors: Path) -> "subprocess.Popen[str]":
    with errors.open("a") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.indexer.ray_cluster.two_nodes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
        )
