"""The Makefile: which Python it takes, and where `make demo` puts what it indexes."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.sources import ROOT

EARLIER = """#!/bin/sh
exec "%s" -c "import sys; sys.version_info, sys.version = (3, 10, 9), '3.10.9 (main)'; exec(sys.argv[2])" "$@"
"""
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("target", ["installed", "installed-unit", "installed-test", "installed-docs"])
def test_an_earlier_python_hears_which_one_is_needed(tmp_path: Path, target: str) -> None:
    assert 'requires-python = ">=3.11"' in (ROOT / "pyproject.toml").read_text()  # which pip compares
    python, venv = tmp_path / "python3.10", tmp_path / "venv"
    python.write_text(EARLIER % sys.executable)
    python.chmod(0o755)
    made = make(f"PYTHON={python}", f"VENV={venv}", f"{venv}/{target}")
    assert made.returncode != 0
    assert f"cbir needs Python 3.11 or later, and {python} is 3.10.9;" in made.stderr
    assert not venv.exists()


def test_every_folder_of_the_demo_has_a_collection_of_its_own(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("mine", "other/mine", "a b")]
    for folder in folders:
        folder.mkdir(parents=True)
    shown = [
        make("--dry-run", "demo"),
        *(make("--dry-run", "demo", f"IMAGES={folder}") for folder in folders),
    ]
    names = [set(re.findall(r'--collection "([^"]+)"', each.stdout)) for each in shown]
    assert [len(each) for each in names] == [1] * 4, "it serves what it has indexed"
    assert len(set.union(*names)) == 4
