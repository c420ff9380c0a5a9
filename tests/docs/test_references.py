"""The references have every command, setting, operation, and name of the library."""

import json
import re
import tomllib
from importlib import import_module

import pytest

import cbir
from cbir import descriptors, rerank
from cbir.descriptors import encoders
from cbir.learn import grading
from cbir.settings import Settings
from cbir.system.lazy_commands import HELP_ALL, KINDS_OF_SEARCH
from docs_site.references import command_page, http_page, settings_page, walk_commands
from docs_site.source_pages import ROOT

GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]


def read(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def documented(name: str) -> set[str]:
    """Return the objects that a page of the reference shows."""
    return set(re.findall(r"^::: ([\w.]+)$", read(f"reference/{name}.md"), re.MULTILINE))


def class_path(member: type) -> str:
    return f"{member.__module__}.{member.__qualname__}"


@pytest.fixture(scope="module")
def commands() -> str:
    return command_page()


@pytest.mark.parametrize(
    "group", [name for name in GROUPS if name.startswith(("cbir.commands", "cbir.panels."))]
)
def test_every_command_is_in_the_reference(group: str, commands: str) -> None:
    prefix = "cbir" if group.startswith("cbir.panels.") else " ".join(["cbir", *group.split(".")[2:]])
    prefix += " --" if group == KINDS_OF_SEARCH else " "
    for name, target in GROUPS[group].items():
        assert re.search(rf"^#+ {prefix}{name}$", commands, re.MULTILINE), f"{prefix}{name}"
        module, _, attribute = target.partition(":")
        loaded = getattr(import_module(module), attribute)
        for command in getattr(loaded, "registered_commands", []):
            title = command.name or command.callback.__name__.replace("_", "-")
            whole = rf"^#+ {prefix}{name}( {re.escape(title)})?$"
            assert re.search(whole, commands, re.MULTILINE), f"{prefix}{name} {title}"


@pytest.mark.parametrize(
    ("command", "option", "meaning"),
    [
        ("cbir search", "--exclude-patient TEXT", "Leave out the images of this patient"),
        ("cbir index files", "--profile TEXT", "A descriptor, encoder"),
        ("cbir collection delete", "--dry-run", "Say how many images"),
        ("cbir grade slit-lamp fit", "--out", ""),
    ],
)
def test_a_command_has_its_options(command: str, option: str, meaning: str, commands: str) -> None:
    section = re.split(r"^#+ ", commands.partition(f"# {command}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    row = next(line for line in section.splitlines() if option in line)
    assert meaning in row
    assert not re.search(r"<(str|int|float|path|list)\b|list\[", section)


def test_every_setting_is_in_the_reference() -> None:
    page = settings_page()
    for name, field in Settings.model_fields.items():
        assert f"| `{name}` |" in page
        assert field.description
    assert "| `audit_failure` | open, closed | `open` |" in page
    assert "| `oidc_issuer` | text | unset |" in page
    assert "| `keep_originals` | true, false | `false` |" in page


def test_every_operation_is_in_the_reference() -> None:
    page, document = http_page(), json.loads(read("openapi.json"))
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert f"\n### {method.upper()} {path}\n\n**{operation['summary']}**\n" in page
    for name in document["components"]["schemas"]:
        assert f"\n### {name}\n" in page
    for name in re.findall(r"\]\(#([\w-]+)\)", page):
        assert re.search(rf"^### {name}$", page, re.MULTILINE | re.IGNORECASE), name


def test_every_name_of_the_python_api_is_in_the_reference() -> None:
    pages = documented("python-api") | documented("client")
    modules = {"Client": "service.client.Client", "CbirError": "cbir.errors", "index": "cbir.index_folder"}
    for name in cbir.OBJECTS:
        assert modules.get(name, f"cbir.{name}") in pages, name


def test_every_reranker_is_in_the_reference_and_described() -> None:
    for member in rerank.RERANKERS:
        assert class_path(member) in documented("rerankers")
        assert f"`{member.name}`" in read("rerank.md")


def test_every_descriptor_is_in_the_reference_and_described() -> None:
    for name in descriptors.names():
        assert class_path(type(descriptors.get(name))) in documented("descriptors")
        assert f"`{name}`" in read("encoders.md"), name
    for name in encoders.names():
        assert f"`{name}`" in read("encoders.md"), name


@pytest.mark.deep
def test_every_loss_is_in_the_reference_and_described() -> None:
    from cbir.learn import losses

    for name in losses.names():
        assert f"`{name}`" in read("training.md"), name
    names = {path.rpartition(".")[2] for path in documented("losses")}
    assert names >= set(losses.__all__)


def test_every_grader_is_in_the_reference_and_described() -> None:
    for member in grading.MEMBERS:
        assert class_path(member) in documented("graders")
    for name in grading.all_names():
        assert f"`{name}`" in read("grading.md"), name


QUOTED = re.compile(r"(?:^|[\s`/\"(])cbir ((?:[a-z-]+ ?)+)([^`\n|#]*)", re.MULTILINE)
DOCUMENTS = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]


def test_options_of_commands_in_documents_exist() -> None:
    options = {
        name: {word for item in command.params for word in (*item.opts, *item.secondary_opts)}
        | {"--help", HELP_ALL}
        for name, command, _ in walk_commands()
    }
    wrong, checked = [], 0
    for document in sorted(DOCUMENTS):
        text = (ROOT / document).read_text(encoding="utf-8").replace("\\\n", " ")
        for words, rest in QUOTED.findall(text):
            name = "cbir"
            for word in words.split():
                name = f"{name} {word}" if f"{name} {word}" in options else name
            name = "cbir index files" if name == "cbir index" else name
            given = re.findall(r"(?<![\w-])--[a-z][a-z-]*", words + rest)
            name = next((f"{name} {option}" for option in given if f"{name} {option}" in options), name)
            for option in given:
                checked += name != "cbir"
                if name != "cbir" and option not in options[name] and not name.endswith(f" {option}"):
                    wrong.append(f"{document}: {name} {option}")
    assert not wrong, "\n".join(wrong)
    assert checked > 200
