"""Every module that the product imports belongs to a declared dependency."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions

import pytest

from tests.project.sources import PACKAGES, ROOT, sources


def imported_modules() -> Iterator[tuple[str, str]]:
    """Yield the file and top-level name of each absolute import."""
    for path, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name.partition(".")[0]) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield path, node.module.partition(".")[0]


def normalised(distribution: str) -> str:
    """Return a distribution's name as PEP 503 writes it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def declared() -> set[str]:
    """Return the distributions that pyproject.toml names, extras included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    requirements = [*project["dependencies"], *(line for lines in extras.values() for line in lines)]
    return {normalised(re.split(r"[\[<>=!~; ]", line, maxsplit=1)[0]) for line in requirements}


@pytest.mark.slow
def test_imports_are_declared() -> None:
    distributions = packages_distributions()
    known = declared()
    undeclared = {
        f"{path} imports {module}"
        for path, module in imported_modules()
        if module not in {*sys.stdlib_module_names, "_typeshed"}
        and module not in PACKAGES
        and not known & {normalised(name) for name in distributions.get(module, [])}
    }
    assert not undeclared, "\n".join(sorted(undeclared))
