"""Clients generated from docs/openapi.json, by generators that users have, use a running service."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.indexer.receiving import file_of, slices
from tests.service.conftest import Served, serving

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"
PROGRAMS = Path(__file__).parent / "generated_clients"
PYTHON_CLIENT = "openapi-python-client==0.29.1"
TYPESCRIPT = ("openapi-typescript@7.13.0", "openapi-fetch@0.14.1", "typescript@5.9.3", "@types/node@22.19.1")
LEFT_OUT = "Endpoint will not be generated"
INSTALL_SECONDS = 300


def run(
    *command: str | Path, folder: Path, seconds: float = INSTALL_SECONDS
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=seconds, check=False
    )


def install(*command: str | Path, folder: Path) -> None:
    """Run a command that installs something; skip the test if it fails."""
    done = run(*command, folder=folder)
    if done.returncode:
        pytest.skip(f"{' '.join(map(str, command[1:]))} failed: {done.stderr[-300:]}")


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of the generated package, and what its generator said."""
    folder = tmp_path_factory.mktemp("python-client")
    python = folder / "env" / "bin" / "python"  # of its own, since the generator needs an older typer
    install(sys.executable, "-m", "venv", "env", folder=folder)
    install(python, "-m", "pip", "install", "--quiet", PYTHON_CLIENT, folder=folder)
    target = ("--output-path", folder / "contract", "--meta", "none")
    done = run(python, "-m", "openapi_python_client", "generate", "--path", DOCUMENT, *target, folder=folder)
    assert done.returncode == 0, done.stdout
    return folder, done.stdout


@pytest.fixture(scope="module")
def changing(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service of a collection of its own."""
    writable = Path(shutil.copytree(indexed, tmp_path_factory.mktemp("own") / "collection"))
    with serving(writable) as running:
        yield running


def test_every_operation_is_generated(generated: tuple[Path, str]) -> None:
    folder, printed = generated
    assert LEFT_OUT not in printed
    operations = {
        item["operationId"]
        for methods in json.loads(DOCUMENT.read_text())["paths"].values()
        for item in methods.values()
    }
    modules = {path.stem for path in (folder / "contract" / "api").glob("*/*.py")}
    assert operations - {module.rstrip("_") for module in modules} == set()


def test_a_generated_python_client_searches(
    generated: tuple[Path, str], changing: Served, pictures: list[Path], ids: list[str]
) -> None:
    folder, _ = generated
    (dataset,) = slices(1, 48, seed=5)
    (folder / "slice.dcm").write_bytes(file_of(dataset))
    shutil.copy(PROGRAMS / "search_program.py", folder)
    program = ("search_program.py", changing.address, pictures[0], "slice.dcm", ids[0])
    done = run(sys.executable, *program, folder=folder)
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)
    assert answers["by id"] == answers["by file"] == answers["by the body"]
    assert answers["by id"] == answers["by id, with the parameters in the address"]
    assert answers["by a file without a name"] == answers["by file"]
    for name in (
        "by id",
        "by id, with the parameters in the address",
        "by file",
        "by a region",
        "by the body",
    ):
        assert len(answers[name]) == 3, name
    assert len(answers["by two files"]) == 3
    assert answers["by vector"] == [ids[0], *answers["by id"]], "a vector leaves nothing out"
    assert answers["a batch of two kinds"] == [answers["by id"], answers["by vector"]]
    assert answers["two searches"] == 2
    assert answers["added"] == ["duplicate"]
    assert answers["images"] == 5


def test_generated_typescript_types_fit(
    changing: Served, pictures: list[Path], ids: list[str], tmp_path: Path
) -> None:
    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("npm or node is not installed")
    for name in ("search.ts", "make_types.mjs"):
        shutil.copy(PROGRAMS / name, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module", "private": true}')
    install("npm", "install", "--silent", "--no-fund", "--no-audit", *TYPESCRIPT, folder=tmp_path)
    made = run("node", "make_types.mjs", DOCUMENT, "schema.d.ts", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    options = (
        "--strict",
        "--skipLibCheck",
        "--target",
        "es2022",
        "--module",
        "esnext",
        "--moduleResolution",
        "bundler",
    )
    checked = run("node", "node_modules/typescript/bin/tsc", *options, "search.ts", folder=tmp_path)
    assert checked.returncode == 0, checked.stdout
    done = run("node", "search.js", changing.address, pictures[0], ids[0], folder=tmp_path)
    assert done.returncode == 0, done.stderr
    by_id, by_file = json.loads(done.stdout)
    assert len(by_id) == 3
    assert by_file == by_id, "the file of the same image"
