"""Help texts of the command line."""

import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest
import typer

from cbir.commands.lazy_commands import load_command
from cbir.extras import EXTRAS
from cbir.main import main


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


@pytest.mark.parametrize(
    ("module", "command", "extra"),
    [
        ("pynetdicom", ["receive", "--collection", "x"], "pacs"),
        ("torch", ["train", "sorter", "--out", "x"], "deep"),
        ("ir_measures", ["evaluate", "run", "--collection", "x", "--out", "y"], "evaluate"),
    ],
)
def test_a_missing_extra_is_one_line(
    module: str,
    command: list[str],
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in [name for name in sys.modules if name.startswith(("indexer.receive", f"{module}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(sys, "argv", ["cbir", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"pip install '.[{extra}]'" in line


def test_extras_are_those_of_pyproject() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    for module, extra in EXTRAS.items():
        packages = [package.partition(">=")[0] for package in project["optional-dependencies"][extra]]
        assert any(package.startswith(module.replace("_", "-")) for package in packages)
