"""Examples at the end of the help texts."""

import shlex
from importlib.metadata import entry_points

import pytest
import typer
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.system.command_texts import EXAMPLES
from cbir.system.lazy_commands import KINDS_OF_SEARCH
from tests.cbir.api.test_help_imports import command_names

ROOT = typer.main.get_command(app)


def find_command(words: list[str]) -> typer.core.TyperCommand | typer.core.TyperGroup:
    """Return the command that the words name."""
    command = ROOT
    for word in words:
        assert isinstance(command, typer.core.TyperGroup)
        command = command.get_command(None, word)
    return command


def test_each_command_has_an_example_and_shows_it() -> None:
    commands = {
        name
        for name in command_names(ROOT)
        if not isinstance(find_command(name.split()), typer.core.TyperGroup)
    }
    commands |= {f"search --{entry.name}" for entry in entry_points(group=KINDS_OF_SEARCH)}
    assert set(EXAMPLES) == commands
    printed = CliRunner().invoke(app, ["collection", "verify", "--help"]).stdout
    assert printed.endswith("Example:\n  cbir collection verify --collection hospital\n")


@pytest.mark.parametrize("words", EXAMPLES)
def test_an_example_is_accepted(words: str) -> None:
    example = shlex.split(EXAMPLES[words])[1:]
    command = words.split()
    if kind := words.partition(" --")[2]:
        assert example[0] == "search"
        assert f"--{kind}" in example
        command = ["search"]
    if words == "index files":  # which may be left out
        example.insert(1, "files")
    assert example[: len(command)] == command
    leaf = find_command(command)
    with leaf.make_context(words, example[len(command) :]):
        pass
