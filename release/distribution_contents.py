"""Check that a wheel and an sdist hold the packages, their data and the licence, and nothing else.

python -m release.distribution_contents dist/cbir-1.0.0-py3-none-any.whl dist/cbir-1.0.0.tar.gz
"""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from release.source_state import ROOT

PACKAGES = ("cbir", "indexer", "service")
# Beside the packages; hatchling adds .gitignore and PKG-INFO.
SDIST = {".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "hatch_build.py", "pyproject.toml"}
BUNDLES = "service/static/bundles/"  # in the wheel alone: hatch_build.py makes them
METADATA = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
RELATIVE_LINK = re.compile(r"\]\((?!https?:|#)([^)]+)\)")  # which PyPI cannot follow
NEEDED = ("py.typed", "service/templates/", "service/static/")  # read when the product runs


def expected_files(root: Path) -> set[str]:
    """Return the files of the packages that git tracks."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *PACKAGES], cwd=root, check=True, stdout=subprocess.PIPE, text=True
    )
    return {name for name in listed.stdout.split("\0") if name}


def problems(distribution: Path, tracked: set[str]) -> list[str]:
    """Return what a wheel or an sdist lacks, or has too much, against the files that git tracks; a line each."""
    if distribution.suffix == ".whl":
        with zipfile.ZipFile(distribution) as archive:
            names = {name for name in archive.namelist() if not name.endswith("/")}
            (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
            links = RELATIVE_LINK.findall(archive.read(metadata).decode())
        bundles = {name for name in names if name.startswith(BUNDLES)} or {f"{BUNDLES}manifest.json"}
        expected = tracked | bundles | {metadata.replace("METADATA", name) for name in METADATA}
    else:
        with tarfile.open(distribution) as archive:
            names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
            links = []
        expected = tracked | SDIST
    return [
        *(f"{distribution.name} lacks {name}" for name in sorted(expected - names)),
        *(f"{distribution.name} holds {name}" for name in sorted(names - expected)),
        *(f"{distribution.name} describes itself with a link to {link}" for link in links),
        *(f"{distribution.name} has no {part}" for part in NEEDED if not any(part in name for name in names)),
    ]


if __name__ == "__main__":
    tracked_files = expected_files(ROOT)
    lines = [line for path in sys.argv[1:] for line in problems(Path(path), tracked_files)]
    if lines:
        sys.exit("\n".join(lines))
    print(f"{len(sys.argv) - 1} distributions: {len(tracked_files)} files of the packages, as in git")
