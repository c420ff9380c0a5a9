"""Runs the unit tests of the JavaScript modules behind /docs with node."""

import shutil
import subprocess
from pathlib import Path

import pytest

import service

TESTS = Path(__file__).with_name("docs_modules.mjs")
STATIC = Path(service.__file__).parent / "static"
NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="there is no node")
def test_modules(tmp_path: Path) -> None:
    shutil.copytree(STATIC, tmp_path / "static")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copy(TESTS, tmp_path)
    done = subprocess.run(
        [str(NODE), "--test", TESTS.name], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 8" in done.stdout
