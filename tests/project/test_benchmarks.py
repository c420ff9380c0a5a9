"""Benchmarks that stay are cited: bench/README.md says by what question."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.project.sources import ROOT

BENCH = ROOT / "bench"
PAGES = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PACKAGES = ("cbir", "indexer", "service", "tests")
RUN_BY = [*(ROOT / "tests").rglob("*.py"), ROOT / "Makefile"]


def read_all(paths: list[Path]) -> str:
    return "\n".join(path.read_text() for path in paths)


def test_every_page_of_figures_is_linked_by_a_document() -> None:
    text = read_all(PAGES)
    uncited = [page.name for page in (BENCH / "results").glob("*.md") if f"results/{page.name}" not in text]
    assert uncited == [], "link what is worth knowing, and remove the rest with its script"


def test_every_script_is_cited_or_run_or_part_of_one_that_is() -> None:
    """A script is named by a page of its figures, a document, a test or the Makefile; its parts by its imports."""
    text = read_all([*PAGES, *RUN_BY, *(BENCH / "results").glob("*.md")])
    scripts = {path.stem: path.read_text() for path in BENCH.glob("*.py")}
    kept = scripts.keys() & set(re.findall(r"\bbench[./](\w+)\b", text))
    while True:
        parts = {
            name
            for name in scripts.keys() - kept
            if any(re.search(rf"^from (bench\.)?{name} import", scripts[user], re.MULTILINE) for user in kept)
        }
        if not parts:
            break
        kept |= parts
    assert scripts.keys() - kept == set()


def test_the_list_names_every_script() -> None:
    listed = (BENCH / "README.md").read_text()
    names = {path.name for path in BENCH.glob("*.py") if not path.name.startswith("audit_")}
    assert {name for name in names if f"`{name}`" not in listed} == set()
    named = {name for name in re.findall(r"`(\w+\.py)`", listed) if not (BENCH / name).exists()}
    assert named == set()


@cache
def names_in(module: str) -> set[str]:
    """Return what can be imported from a module; nothing is imported, as scripts need extras."""
    place = ROOT.joinpath(*module.split("."))
    file = place.with_suffix(".py") if place.with_suffix(".py").exists() else place / "__init__.py"
    names = {path.stem for path in place.glob("*")}
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.ImportFrom(names=imported) | ast.Import(names=imported):
                names |= {each.asname or each.name for each in imported}
    return names


def test_scripts_import_what_is_there() -> None:
    missing = [
        f"{path.name}: {node.module}.{each.name}"
        for path in BENCH.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PACKAGES
        for each in node.names
        if not {each.name, "__getattr__"} & names_in(node.module)  # that makes names when they are asked for
    ]
    assert missing == []
