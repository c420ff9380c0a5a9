"""Index, search and serve without the calls that macOS and Windows lack."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.service.conftest import CBIR

HOOK = Path(__file__).parent / "other_systems"
GONE = """
import os
from cbir.system import files
print(hasattr(os, "fork"), hasattr(os, "sched_getaffinity"), hasattr(files, "msvcrt"))
"""
HOLD = """
import sys
from pathlib import Path
from cbir.store import Collection
with Collection(Path(sys.argv[1])) as opened, opened.writer():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module", params=["macos", "windows"])
def system(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def environment(system: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    state = tmp_path_factory.mktemp(f"state-{system}")
    return os.environ | {
        "PYTHONPATH": str(HOOK),
        "CBIR_TEST_SYSTEM": system,
        "CBIR_STATE_FOLDER": str(state),
        "CBIR_DECODERS": "1",
    }


@pytest.fixture(scope="module")
def indexed(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of phantoms, indexed in two processes."""
    folder = tmp_path_factory.mktemp("images")
    run(environment, "dataset", "phantoms", folder / "images", "--count", 12, "--size", 64)
    collection = folder / "collection"
    sources = ("--labels", folder / "images" / "manifest.csv", "--profile", "huang2012", "--jobs", 2)
    printed = run(environment, "index", folder / "images", "--collection", collection, *sources)
    assert "12 images indexed" in printed
    return collection


def run(environment: dict[str, str], *arguments: object, code: int = 0) -> str:
    """Run `cbir`; what it printed, or its errors if it has to fail."""
    command = [*CBIR, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


@contextmanager
def served(environment: dict[str, str], collection: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    command = [*CBIR, "serve", "--collection", str(collection), "--port", "0"]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        page = process.stdout.readline()
        assert page.startswith("The page: "), process.communicate(timeout=300)
        yield page.split()[-1].rstrip("/"), process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=300)


def test_the_calls_are_gone(environment: dict[str, str], system: str) -> None:
    printed = subprocess.check_output([CBIR[0], "-c", GONE], env=environment, text=True).split()
    assert printed == (["True", "False", "False"] if system == "macos" else ["False", "False", "True"])


def test_search(environment: dict[str, str], indexed: Path) -> None:
    query = indexed.with_name("images") / "phantom-000000.png"
    printed = run(environment, "search", query, "--collection", indexed, "-k", 3, "--format", "json")
    assert len(json.loads(printed)["results"]) == 3


def test_one_writer_at_a_time(environment: dict[str, str], indexed: Path) -> None:
    holder = subprocess.Popen(
        [CBIR[0], "-c", HOLD, str(indexed)],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        refused = run(environment, "collection", "compact", "--collection", indexed, code=2)
        assert len(refused.splitlines()) == 1
    finally:
        holder.communicate("", timeout=300)
    run(environment, "collection", "compact", "--collection", indexed)
    run(environment, "collection", "verify", "--collection", indexed)


def test_serve_with_tokens_and_an_audit_log(environment: dict[str, str], indexed: Path, system: str) -> None:
    token = run(environment, "admin", "token", "create", "--scope", "search").split()[-1]
    picture = indexed.with_name("images") / "phantom-000000.png"
    with served(environment | {"CBIR_REQUIRE_TOKENS": "true"}, indexed) as (address, process):
        files = {"image": picture.read_bytes()}
        assert httpx.post(f"{address}/v1/search?k=3", files=files).status_code == 401
        answer = httpx.post(
            f"{address}/v1/search?k=3", files=files, headers={"Authorization": f"Bearer {token}"}, timeout=60
        )
        assert len(answer.json()["results"]) == 3
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=300)
    assert process.returncode == 0
    assert ("waitress serves" in log) == (system == "windows")
    assert "unbroken" in run(environment, "admin", "audit-log", "verify")
