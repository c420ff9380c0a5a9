"""All commands: panels, old names, lengths and words of help texts, and the variable that names the collection."""

import re
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.search.command_options import DESCRIPTORS
from cbir.store.writing.default_profile import DEFAULT_PROFILE
from cbir.system.lazy_commands import HELP_ALL, KINDS_OF_SEARCH, OLD, PANELS, new_name
from docs_site.references import walk_commands

GROUPS = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["entry-points"]
COMMANDS: list[tuple[str, Any, Any]] = list(walk_commands())
LEAVES = {
    name: (command, context) for name, command, context in COMMANDS if not hasattr(command, "list_commands")
}
MOST_AT_THE_TOP = 14
MOST_OPTIONS = 15
AFTERTHOUGHT = re.compile(r"(\s*\[[^\]]*\]\.?)+$")  # [default: ...]


def invoke(*words: str, **environment: str) -> Any:
    return CliRunner().invoke(app, list(words), env=environment)


def options_of(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "option"]


def section(printed: str, title: str) -> str:
    return re.split(r"\n\n(?=\S)", printed.partition(f"\n{title}:\n")[2])[0]


def test_the_commands_at_the_top_are_few_and_in_panels() -> None:
    printed = invoke("--help").output
    titles = re.findall(r"^(\w+):$", printed, re.MULTILINE)
    assert titles[0] == "Options"
    assert titles[1 : 1 + len(PANELS)] == list(PANELS)
    names = [name for panel in PANELS for name in GROUPS[f"cbir.panels.{panel.lower()}"]]
    assert len(set(names)) == len(names) <= MOST_AT_THE_TOP
    for panel in PANELS:
        shown = re.findall(r"^  (\S+)  ", section(printed, panel), re.MULTILINE)
        assert shown == sorted(GROUPS[f"cbir.panels.{panel.lower()}"])


def test_a_command_of_another_distribution_has_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / "notes-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: notes\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[cbir.commands]\nnote = note_commands:note\n[cbir.panels.data]\nfetch = note_commands:note\n"
        "[cbir.commands.admin]\npurge = note_commands:note\n[cbir.commands.search]\nnoted = note_commands:note\n"
        "[cbir.old_commands]\nremark = note_commands:note\n"
    )
    (tmp_path / "note_commands.py").write_text(
        'def note(text: str = ""):\n    """Write a note."""\n    print("noted", text)\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    printed = invoke("--help").output
    assert section(printed, "Others").split() == ["note", "Write", "a", "note."]
    assert "fetch" in section(printed, "Data")
    assert "purge" in invoke("admin", "--help").output
    assert "--noted" in invoke("search", "--help").output
    assert invoke("search", "--noted", "--text", "x").output == "noted x\n"
    old = invoke("remark", "--text", "y")
    assert old.stdout == "noted y\n"
    assert re.fullmatch(
        r"cbir: `\w+ remark` is now `cbir (note|fetch)`; the old name works until 2\.0\n", old.stderr
    )


@pytest.mark.parametrize("name", LEAVES)
def test_plain_help_shows_few_options_and_help_all_every_one(name: str) -> None:
    command, _ = LEAVES[name]
    words = name.split()[1:]
    plain, whole = invoke(*words, "--help").output, invoke(*words, HELP_ALL)
    shown = set(re.findall(r"^  (?:-\w, )?(--?[\w-]+)", plain.partition("Options:")[2], re.MULTILINE))
    assert len(shown) <= MOST_OPTIONS
    hidden = [each for each in options_of(command) if each.hidden]
    if not hidden:
        assert whole.exit_code == 2
        return
    assert whole.exit_code == 0
    for option in options_of(command):
        assert re.search(rf"^  .*{option.opts[0]}\b", whole.output, re.MULTILINE), option.opts
        assert option.required <= (not option.hidden)
    assert "--help-all" in plain
    for option in hidden:
        assert not re.search(rf"^  {option.opts[0]} ", plain, re.MULTILINE), option.opts


@pytest.mark.parametrize("name", LEAVES)
def test_help_is_whole_sentences_with_the_words_of_readers(name: str) -> None:
    command, context = LEAVES[name]
    assert command.help.strip().endswith(".")
    for parameter in command.params:
        text = AFTERTHOUGHT.sub("", parameter.help or "")
        assert text.endswith((".", "...")), f"{name} {parameter.name}: {parameter.help}"
    printed = invoke(
        *name.split()[1:], HELP_ALL if any(each.hidden for each in options_of(command)) else "--help"
    ).output
    assert not re.search(r"<\w+|list\[|\{\w+\}", printed), context.command_path
    assert "PATH PATH" not in printed


OLD_NAMES = {name.replace(".", " "): value for name, value in GROUPS[OLD].items()}


@pytest.mark.parametrize("old", OLD_NAMES)
def test_an_old_name_works_and_names_the_new_one(old: str) -> None:
    new = new_name(EntryPoint(old, OLD_NAMES[old], OLD))
    replaced = invoke(*old.split(), "--help")
    assert replaced.exit_code == 0
    assert replaced.stderr.count("\n") == 1
    assert f"{old}` is now `cbir {new}`" in replaced.stderr
    renamed = invoke(*new.split(), "--help")
    assert renamed.exit_code == 0
    assert renamed.stderr == ""
    body = replaced.stdout.partition("\n\n")[2].partition("\n\nExample:")[0].strip()
    assert body
    assert renamed.stdout.partition("\n\n")[2].startswith(body) or body in renamed.stdout
    parent = typer.main.get_command(app)
    for word in old.split()[:-1]:
        parent = parent.get_command(None, word)  # type: ignore[attr-defined]
    assert old.split()[-1] not in parent.list_commands(None)  # type: ignore[attr-defined]


def test_exit_code_and_output_of_an_old_name_are_those_of_the_new(tmp_path: Path) -> None:
    for old, new in ((["config", "--format", "json"], ["admin", "config", "--format", "json"]),
                     (["state", "verify"], ["admin", "state", "verify"]),
                     (["token", "list"], ["admin", "token", "list"]),
                     (["token", "revoke"], ["admin", "token", "revoke"])):  # fmt: skip
        before, after = (invoke(*words, CBIR_STATE_FOLDER=str(tmp_path)) for words in (old, new))
        assert (before.exit_code, before.stdout) == (after.exit_code, after.stdout)


@pytest.mark.parametrize("name", [name for name in LEAVES if name.startswith("cbir search --")])
def test_a_kind_of_search_shows_its_own_help(name: str) -> None:
    word = name.split("--")[1]
    assert word in GROUPS[KINDS_OF_SEARCH]
    printed = invoke("search", f"--{word}", "--help").output
    assert printed.startswith("Usage: ")
    assert f"search --{word}" in printed.splitlines()[0]
    assert invoke("search", "--", f"--{word}").stderr.count("--collection") == 1  # a file of this name


NAMES_OF_SERVED = ("cbir admin token create", "cbir admin usage delete", "cbir admin usage export")


@pytest.mark.parametrize("name", [name for name in LEAVES if name not in NAMES_OF_SERVED])
def test_every_collection_may_be_named_by_the_variable(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, _ = LEAVES[name]
    if "--collection" not in {option for each in options_of(command) for option in each.opts}:
        return
    monkeypatch.setenv("CBIR_COLLECTION", str(tmp_path / "of the variable"))
    monkeypatch.setattr(command, "params", [each for each in command.params if "--collection" in each.opts])
    monkeypatch.setattr(command, "no_args_is_help", False)
    for arguments, folder in (([], "of the variable"), (["--collection", str(tmp_path / "named")], "named")):
        with command.make_context(name, list(arguments)) as context:
            value = context.params["collection"]
        assert value in (tmp_path / folder, [tmp_path / folder])


def test_a_command_finds_the_collection_of_the_variable(tmp_path: Path) -> None:
    missing = invoke("serve")
    assert missing.exit_code == 2
    assert "Missing option '--collection' (env var: 'CBIR_COLLECTION')" in missing.stderr
    variable = str(tmp_path / "a b")
    for words in (["collection", "info"], ["serve"], ["admin", "worker"]):
        result = invoke(*words, CBIR_COLLECTION=variable)
        assert "there is no collection in" in str(result.exception)
        assert "a b" in str(result.exception)
        result = invoke(*words, "--collection", str(tmp_path / "named"), CBIR_COLLECTION=variable)
        assert "named" in str(result.exception)
        assert "a b" not in str(result.exception)


def test_usage_names_arguments_in_capitals() -> None:
    for name, (command, context) in LEAVES.items():
        arguments = command.get_usage(context).partition("[OPTIONS]")[2]
        assert arguments == arguments.upper(), name
        assert "...." not in arguments, name


@pytest.mark.parametrize(
    ("option", "kind"),
    [("--series", "study"), ("--level", "study"), ("--out", "report"), ("--store", "report")],
)
def test_an_option_of_a_kind_of_search_alone_names_that_kind(option: str, kind: str) -> None:
    refused = invoke("search", option, "x", "--collection", "y")
    assert refused.exit_code == 2
    assert f"{option}. It is an option of `cbir search --{kind}`." in refused.stderr.replace("root ", "cbir ")
    assert "Possible options" not in refused.stderr


@pytest.mark.parametrize(("option", "meant"), [("--reran", "--rerank"), ("--studdy", "--study")])
def test_an_option_of_no_search_leads_to_one_like_it(option: str, meant: str) -> None:
    refused = invoke("search", option, "x", "--collection", "y")
    assert refused.exit_code == 2
    assert meant in re.findall(r"--\w+", refused.stderr.replace(f"{option} ", ""))


def test_new_collections_and_descriptions_have_the_same_default() -> None:
    defaults = {
        name: option.default
        for name, (command, _) in LEAVES.items()
        for option in options_of(command)
        if "--profile" in option.opts
    }
    assert set(defaults.values()) == {None, DEFAULT_PROFILE}  # None: that of the collection, or of a new one
    assert defaults["cbir describe"] == DEFAULT_PROFILE
    for name in ("index files", "index dicomweb", "receive", "irma evaluate"):
        assert defaults[f"cbir {name}"] is None
    assert f"{DEFAULT_PROFILE} by default" in " ".join(invoke("index", "--help").output.split())


@pytest.mark.parametrize("name", ["describe", "index files", "irma evaluate", "collection redescribe"])
def test_a_profile_is_named_in_the_same_words_everywhere(name: str) -> None:
    (option,) = (each for each in options_of(LEAVES[f"cbir {name}"][0]) if "--profile" in each.opts)
    assert option.opts[0] == "--profile"
    assert option.help.startswith(f"A {DESCRIPTORS}")


def test_a_mistyped_old_name_leads_to_the_new_one() -> None:
    for words, meant in ((["tokn"], "cbir admin token"), (["similr"], "cbir search --study"),
                         (["evaluate", "irma-ru"], "cbir irma answer"), (["serch"], "search")):  # fmt: skip
        refused = invoke(*words)
        assert refused.exit_code == 2
        assert f"'{meant}'" in " ".join(refused.stderr.split())
