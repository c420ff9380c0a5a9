"""Tests that a change needs: `python -m tests.changed BASE` prints them, for `.ci/run --changed BASE`.

A feature's tests run when it, its tests or the core changed; documents and benchmarks have tests of their own. What
is not in the list is the core, whose change needs every test. Before a release everything runs.
"""

import re
import subprocess
import sys
from collections.abc import Iterable

from tests.project.sources import ROOT

EVERYTHING = "tests"
ALWAYS = (
    "tests/project",
    "tests/service/test_openapi.py",
    "tests/service/test_access.py",
    "tests/service/test_languages.py",
)
ARROW = re.compile(r'"service\.features\.(\w+)\.\S* -> service\.features\.(\w+)\.')  # in pyproject.toml
FEATURE = re.compile(r"(?:service|tests/service|tests/e2e)/features/(\w+)/")
OTHERS = {  # start of a path: tests
    "docs/": ("tests/docs",),
    "docs_site/": ("tests/docs",),
    "mkdocs.yml": ("tests/docs",),
    "README.md": ("tests/docs",),
    "CONTRIBUTING.md": ("tests/docs",),
    "CHANGELOG.md": (),
    "deploy/": (),
    "tests/docs/": ("tests/docs",),
    "tests/project/": (),
}


def changed_files(base: str) -> list[str]:
    """Return the files that differ from where this branch left `base`, those without a commit too."""
    changed = ["git", "diff", "--name-only", "--no-renames", "-z", "--merge-base", base]
    new = ["git", "ls-files", "--others", "--exclude-standard", "-z"]
    output = "".join(
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for command in (changed, new)
    )
    return [name for name in output.split("\0") if name]


def benchmark_tests() -> set[str]:
    """Return the tests that load a benchmark."""
    paths = (path for path in (ROOT / "tests").rglob("test_*.py") if "tests.benches" in path.read_text())
    return {path.relative_to(ROOT).as_posix() for path in paths}


def with_users(feature: str) -> set[str]:
    """Return a feature, and those that import it as the contract of pyproject.toml allows."""
    arrows = ARROW.findall((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {feature} | {user for user, used in arrows if used == feature}


def needed_tests(files: Iterable[str]) -> list[str]:
    """Return the tests that a change of `files` needs, as pytest takes them."""
    needed = set(ALWAYS)
    for name in files:
        if feature := FEATURE.match(name):
            names = with_users(feature[1])
            needed |= {f"tests/{part}/features/{name}" for part in ("service", "e2e") for name in names}
        elif name.startswith("bench/"):
            needed |= benchmark_tests()
        elif (start := next(filter(name.startswith, OTHERS), None)) is not None:
            needed |= set(OTHERS[start])
        else:
            return [EVERYTHING]
    return sorted(name for name in needed if (ROOT / name).exists())


if __name__ == "__main__":
    print(*needed_tests(changed_files(sys.argv[1])))
