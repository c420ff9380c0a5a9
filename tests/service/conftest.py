"""A small collection of phantoms, the service over it, and what every problem looks like."""

import csv
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from cbir import settings
from cbir.store import Collection
from service.app import create_app

COUNT = 36
CBIR = [sys.executable, "-m", "cbir.main"]


def cbir(*arguments: str | Path) -> str:
    """Run a `cbir` command to its end and return what it printed."""
    done = subprocess.run([*CBIR, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Phantoms as PNG files, beside a csv that gives each a patient and a label."""
    folder = tmp_path_factory.mktemp("pictures")
    cbir("phantoms", folder, "--count", str(COUNT))
    results = sorted(folder.rglob("*.png"))
    assert len(results) == COUNT
    with (folder / "labels.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "label", "patient", "severity"])
        rows.writerows(
            [path.relative_to(folder), ("even", "odd")[number % 2], f"patient-{number // 4}", number / 10]
            for number, path in enumerate(results)
        )
    return results


@pytest.fixture(scope="session")
def indexed(pictures: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the collection of all pictures but the last six; not to be changed."""
    folder = tmp_path_factory.mktemp("indexed") / "collection"
    labels = next(parent / "labels.csv" for parent in pictures[0].parents if (parent / "labels.csv").exists())
    cbir("index", *pictures[:-6], "--labels", labels, "--collection", folder, "--jobs", "1")
    return folder


@pytest.fixture
def writable(indexed: Path, tmp_path: Path) -> Path:
    """A copy of the collection, to be changed."""
    return Path(shutil.copytree(indexed, tmp_path / "own"))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


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
        _, log = self.process.communicate(timeout=30)
        return self.process.returncode, log


@contextmanager
def serving(folder: Path, *arguments: str, **environment: str) -> Iterator[Served]:
    """A `cbir serve` of a collection on a free port."""
    command = [*CBIR, "serve", "--collection", str(folder), "--port", "0", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    )
    served = Served(process)
    try:
        yield served
    finally:
        served.stop()
