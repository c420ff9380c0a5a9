"""A small collection of phantoms, the service over it, and what every problem looks like."""

import csv
import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from cbir import settings
from cbir.api.main import main
from cbir.evaluation.datasets.phantoms import write_phantoms
from cbir.store import Collection
from cbir.system.files import wait_lock
from service.access.token_list import TokenStorage
from service.access.token_stores import open_tokens
from service.app import create_app
from service.state.database import open_state
from tests.indexer.commands import call
from tests.postgresql_server import PostgresqlServer

COUNT = 36
CBIR = [sys.executable, "-m", "cbir.api.main"]


def cbir(*arguments: str | Path) -> str:
    """Run a `cbir` command to its end in this process, which has its modules already, and return what it printed."""
    return call(*arguments)[0]


def made_once(temporary: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that the first process of a test run fills and the others only read."""
    base = temporary.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "made-once" / name
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        wait_lock(lock.fileno())
        done = folder.with_suffix(".done")
        if not done.exists():
            make(folder)
            done.touch()
    return folder


def _draw(folder: Path) -> None:
    write_phantoms(folder, COUNT)
    results = sorted(folder.glob("*.png"))
    with (folder / "labels.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "label", "patient", "severity"])
        rows.writerows(
            [path.relative_to(folder), ("even", "odd")[number % 2], f"patient-{number // 4}", number / 10]
            for number, path in enumerate(results)
        )


def command(*arguments: str | Path, **environment: str | Path) -> tuple[int, str, str]:
    """Run a `cbir` command in this process; its exit code, and what it wrote to stdout and stderr."""
    code: Any = 0
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        out, err = (
            stack.enter_context(redirect(StringIO())) for redirect in (redirect_stdout, redirect_stderr)
        )
        patch.setattr(sys, "argv", ["cbir", *map(str, arguments)])
        for name, value in environment.items():
            patch.setenv(name, str(value))
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    return code, out.getvalue(), err.getvalue()


def refusal(*arguments: str | Path) -> str:
    """What a `cbir` command says that is refused: one line."""
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
    return err


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Phantoms as PNG files, beside a csv that gives each a patient and a label; not to be changed."""
    results = sorted(made_once(tmp_path_factory, "pictures", _draw).glob("*.png"))
    assert len(results) == COUNT
    return results


def index_once(
    pictures: list[Path], temporary: pytest.TempPathFactory, name: str, *options: str | Path
) -> Path:
    """The folder of a collection of all pictures but the last six, with these options of `cbir index`."""
    labels = pictures[0].with_name("labels.csv")
    index = partial(
        cbir, "index", *pictures[:-6], "--labels", labels, "--jobs", "1", *options, "--collection"
    )
    made = made_once(temporary, name, index)
    # A copy for each process: SQLite adds and removes files beside a database that is open.
    return Path(shutil.copytree(made, temporary.mktemp(name) / "collection"))


@pytest.fixture(scope="session")
def indexed(pictures: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a collection with a profile that needs no network; not to be changed."""
    return index_once(pictures, tmp_path_factory, "indexed", "--profile", "huang2012")


@pytest.fixture
def writable(indexed: Path, tmp_path: Path) -> Path:
    """A copy of the collection, to be changed."""
    return copy_folder(indexed, tmp_path / "own")


def copy_folder(folder: Path, target: Path) -> Path:
    """Copy the folder of a collection; nothing that earlier tests opened is closed meanwhile, which removes files."""
    gc.disable()
    try:
        return Path(shutil.copytree(folder, target))
    finally:
        gc.enable()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture(params=["sqlite", "postgresql"])
def each_database(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Keep the state of services in a file, then in PostgreSQL."""
    if request.param == "postgresql":
        server: PostgresqlServer = request.getfixturevalue("postgresql")
        monkeypatch.setenv("CBIR_STATE_DATABASE", server.new_schema())
    return str(request.param)


def stored_tokens(state: Path) -> TokenStorage:
    """The tokens of a service with this state folder: those of a shared database, if it has one."""
    active = settings.load(state_folder=state)
    return open_tokens(active, open_state(active))


ONLY_FILE = pytest.mark.parametrize("each_database", ["sqlite"], indirect=True)


@pytest.fixture
def app(indexed: Path) -> Flask:
    return create_app(indexed, settings.load())


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


@pytest.fixture(scope="session")
def ids(indexed: Path) -> list[str]:
    """The ids of the collection's images, in the order they came."""
    with Collection(indexed) as collection:
        return [record.image_id for _, record in collection.iterate()]


def facts_of(page: str) -> dict[str, Any]:
    """What a page tells its scripts."""
    text = re.search("data-facts='([^']*)'", page)
    assert text
    facts: dict[str, Any] = json.loads(text[1])
    return facts


def page_facts(client: FlaskClient, address: str = "/") -> dict[str, Any]:
    """What the scripts of the search page are told."""
    return facts_of(client.get(address).text)


def problem(response: Any, status: int) -> str:
    """Assert that a response is a problem (RFC 9457) of that status, and return its detail."""
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/problem+json"
    body = response.json if isinstance(response.json, dict) else response.json()
    assert body["type"].startswith("/docs/errors#")
    assert body["status"] == status
    assert body["title"]
    detail: str = body["detail"]
    assert detail
    return detail


class Served:
    """A running `cbir serve`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.printed = [process.stdout.readline() for _ in range(3)]
        assert self.printed[0].startswith(("The page: http://", "The page: https://")), self.stop()
        self.address = self.printed[0].split()[-1].rstrip("/")
        self.port = int(self.address.rsplit(":", 1)[1])

    def stop(self) -> tuple[int, str]:
        """Press Ctrl-C; its exit code, and what it wrote to the log."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        _, log = self.process.communicate(timeout=300)
        return self.process.returncode, log


@contextmanager
def serving(folder: Path, *arguments: str, **environment: str) -> Iterator[Served]:
    """A `cbir serve` of a collection on a free port, with one decoder unless `environment` has CBIR_DECODERS."""
    command = [*CBIR, "serve", "--collection", str(folder), "--port", "0", *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"CBIR_DECODERS": "1"} | environment,
    )
    served = Served(process)
    try:
        yield served
    finally:
        served.stop()
