"""Help texts of the command line."""

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest
import typer

from cbir.commands.lazy_commands import load_command


def resize(side: int = typer.Option(64, help="Side in pixels [even numbers only].")) -> None:
    """Resize an image [in place]."""


@pytest.fixture(params=["function", "group"])
def command(request, monkeypatch):
    module = ModuleType("example_commands")
    module.resize = resize
    module.app = typer.Typer(add_completion=False)
    module.app.command()(resize)
    module.app.command("enlarge")(resize)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    name = "resize" if request.param == "function" else "app"
    loaded = load_command(EntryPoint("example", f"example_commands:{name}", "cbir.commands"))
    return loaded if request.param == "function" else loaded.commands["resize"]


def test_help_shows_square_brackets_and_defaults(command):
    with command.make_context("example", [], resilient_parsing=True) as context:
        printed = " ".join(command.get_help(context).split())
    assert "[in place]" in printed
    assert "[even numbers only]" in printed
    assert "[default: 64]" in printed
