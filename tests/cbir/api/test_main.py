"""Help texts of the command line."""

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest
import typer

from cbir.api.main import main
from cbir.settings import load
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.system.command_texts import SUMMARIES
from cbir.system.lazy_commands import load_command
from cbir.system.remedies import EXTRAS
from tests.cbir.store.conftest import entry


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
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    for module, extra in EXTRAS.items():
        packages = [package.replace("-", "").lower() for package in project["optional-dependencies"][extra]]
        assert any(package.startswith(module.replace("_", "").lower()) for package in packages)


def refusal_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that is refused as wrong use; its last line."""
    monkeypatch.setattr(sys, "argv", ["cbir", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "suggested"),
    [
        (["serch"], "'search'"),
        (["collection", "comprae"], "'compare'"),
        (["collection", "delte"], "'delete'"),
        (["search", "--colection", "x"], "--collection"),
    ],
)
def test_a_misspelt_name_is_suggested(arguments, suggested, monkeypatch, capsys) -> None:
    assert suggested in refusal_of(monkeypatch, capsys, *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "x", "--collection", "y", "--rerank", "none", "--rerank", "eprf"],
        ["evaluate", "run", "--collection", "y", "--out", "z", "--rerank", "none", "--rerank", "eprf"],
        ["index", "x", "--collection", "y", "--jobs", "1", "--jobs", "2"],
    ],
)
def test_an_option_that_takes_one_value_is_refused_twice(arguments, monkeypatch, capsys) -> None:
    assert "is given 2 times" in refusal_of(monkeypatch, capsys, *arguments)


def test_every_command_has_a_summary_and_its_help_imports_none(capsys, monkeypatch) -> None:
    groups = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"][
        "entry-points"
    ]
    at_the_top = {
        value for name in groups if name.startswith("cbir.panels.") for value in groups[name].values()
    }
    assert at_the_top < set(SUMMARIES) <= {value for group in groups.values() for value in group.values()}
    run = "from cbir.api.main import app; app(['--help'], standalone_mode=False)"
    code = f"import sys; {run}; print(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=400).stdout
    assert "Search with images, image ids or text." in printed
    assert not {"numpy", "pydantic", "sqlalchemy", "cv2"} & set(printed.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("arguments", "suggested"),
    [
        (["index", ".", "--collection", "x", "--profile", "lite0-mxa"], "'lite0-max'"),
        (["encoder", "show", "lite0-mx"], "'lite0-max'"),
        (["search", "id:{known}", "--collection", "{folder}", "--rerank", "difusion"], "'diffusion'"),
        (["search", "id:{known}", "--collection", "{folder}", "--where", "modalty=CT"], "'modality'"),
        (["collection", "tune", "--collection", "{folder}", "--label", "modalty"], "'modality'"),
        (["grade", "fit", "--collection", "{folder}", "--grade-column", "gade"], "'grade'"),
        (["grade", "fit", "--collection", "{folder}", "--ranker", "s-ndgc"], "'s-ndcg'"),
    ],
)
def test_a_misspelt_value_is_suggested(arguments, suggested, tmp_path, monkeypatch, capsys) -> None:
    made = Collection.create(tmp_path / "collection", profiles.get("tamura"))
    with made.writer() as writer:
        writer.add([entry(number, labels={"modality": "CT", "grade": "1"}) for number in range(2)])
    made.close()
    known = entry(0)[0].content_hash
    words = [word.format(folder=made.folder, known=known) for word in arguments]
    assert f"; did you mean {suggested}?" in refusal_of(monkeypatch, capsys, *words)


def test_a_misspelt_setting_is_suggested_and_other_variables_are_left_alone(
    tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CBIR_SOMETHING_ELSE", "1")
    monkeypatch.setenv("CBIR_TOKEN", "1")
    load()
    monkeypatch.setenv("CBIR_HSOT", "localhost")
    assert "did you mean CBIR_HOST?" in refusal_of(monkeypatch, capsys, "admin", "config")
    monkeypatch.delenv("CBIR_HSOT")
    (tmp_path / "cbir.toml").write_text('hsot = "localhost"')
    assert "there is no setting hsot; did you mean 'host'?" in refusal_of(
        monkeypatch, capsys, "admin", "config"
    )
    (tmp_path / "cbir.toml").write_text("quite_different = 1")
    assert "there is no setting quite_different; `cbir admin config`" in refusal_of(
        monkeypatch, capsys, "admin", "config"
    )
