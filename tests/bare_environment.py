"""An environment of Python with what `pip install .` brings, and no package of an extra."""

import atexit
import os
import shutil
import subprocess
import tomllib
import venv
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from packaging.markers import default_environment

from release.licences import closure, installed
from tests.project.sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@cache
def bare_environment() -> Path:
    """Return the folder of the environment, made of links into this one, so that no network is needed."""
    folder = Path(mkdtemp(prefix="cbir-bare-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    venv.create(folder, symlinks=True)
    (site,) = folder.rglob("site-packages")
    context = {key: str(value) for key, value in default_environment().items()}
    for name in closure(["cbir"], context):
        package = installed(name)
        if package is None:  # its marker names another system
            continue
        for place in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            if not (site / place).exists():  # packages may share a namespace
                (site / place).symlink_to(str(package.locate_file(place)))
    (site / "cbir.pth").write_text(f"{ROOT}\n")
    own = site / "cbir-1.dist-info"
    own.mkdir()
    (own / "METADATA").write_text("Metadata-Version: 2.4\nName: cbir\nVersion: 1\n")
    groups = {"console_scripts": PROJECT["scripts"], **PROJECT["entry-points"]}
    lines = [
        line
        for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]
    (own / "entry_points.txt").write_text("\n".join(lines))
    return folder


def run_bare(*arguments: object, code: int = 0) -> tuple[str, str]:
    """Run Python with arguments in the bare environment; return what it printed and what it wrote to stderr."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [bare_environment() / "bin" / "python", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=280,
        env=variables,
    )
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr
