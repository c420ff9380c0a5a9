"""The limit of open files is raised at the start, and checked."""

import subprocess
import sys

import pytest

from service.server.server_sizes import HEADROOM, MAX_CONNECTIONS

resource = pytest.importorskip("resource")

PREPARE = """
import resource, sys
from cbir.errors import InvalidInput
from service.server import server_sizes
soft, hard = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
try:
    server_sizes.prepare_limit(threads=80)
except InvalidInput as error:
    print(error)
else:
    print(*resource.getrlimit(resource.RLIMIT_NOFILE), server_sizes.connections_allowed(0))
"""


def prepared(soft: int, hard: int) -> str:
    """What the service makes of these limits."""
    command = [sys.executable, "-c", PREPARE, str(soft), str(hard)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=400).stdout


def test_the_soft_limit_is_raised() -> None:
    soft, hard, connections = map(int, prepared(256, 4096).split())
    assert MAX_CONNECTIONS < soft < hard
    assert connections == MAX_CONNECTIONS


def test_a_high_limit_stays() -> None:
    assert prepared(3000, 4096).split()[0] == "3000"


def test_a_low_hard_limit_leaves_fewer_connections() -> None:
    soft, _, connections = map(int, prepared(256, 512).split())
    assert soft == 512
    assert 0 < connections < 512 - HEADROOM


def test_too_low_a_limit_is_refused_with_the_remedy() -> None:
    detail = prepared(64, 100)
    assert "100 files may be open" in detail
    assert "ulimit -n" in detail
