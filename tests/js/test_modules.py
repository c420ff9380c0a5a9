"""Runs the unit tests of the pages' JavaScript modules, NAME.test.js beside this file, with node's test runner."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import service

HERE = Path(__file__).parent
SERVICE = Path(service.__file__).parent
FILES = sorted(path.name for path in HERE.glob("*.test.js"))
NODE = shutil.which("node")


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules and their tests in one folder, where node takes .js files for modules."""
    folder = tmp_path_factory.mktemp("modules")
    for static in (SERVICE / "static", *(SERVICE / "features").rglob("static")):
        shutil.copytree(static, folder / "static", dirs_exist_ok=True)
    for name in FILES:
        shutil.copy(HERE / name, folder)
    shutil.copy(HERE / "page.js", folder)
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    return folder


@pytest.mark.skipif(NODE is None, reason="there is no node")
@pytest.mark.parametrize("name", FILES)
def test_module(name: str, copies: Path) -> None:
    done = subprocess.run(
        [str(NODE), "--import", "./page.js", name],  # without --test, which starts another process
        cwd=copies,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"tests [1-9]", done.stdout)
