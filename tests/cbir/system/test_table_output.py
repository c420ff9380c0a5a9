"""Text of users in tables is printed as it is."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.descriptors.encoders import Encoder
from cbir.errors import InvalidInput
from cbir.system.console import results_console
from tests.indexer.commands import call
from tests.indexer.conftest import picture


def test_markup_and_emoji_codes_stay(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    table = Table("[red]", title="[/x]", box=None)
    table.add_row("pip install '.[volume]' [/] :smile:")
    console = results_console()
    console.print(table)
    console.print("[/x] :cat:")
    printed = capsys.readouterr().out
    for text in ("[red]", "[/x]", "pip install '.[volume]' [/] :smile:", "[/x] :cat:"):
        assert text in printed


def test_names_do_not_control_the_terminal(tmp_path: Path) -> None:
    for seed in range(2):
        picture(tmp_path / "images" / f"{seed}\x1b[31m\x9b2J.png", seed)
    bad = tmp_path / "images" / "bad\x1b[31m.png"
    bad.write_text("no picture")
    place = tmp_path / "collection"
    options = ("--collection", place, "--profile", "tamura", "--jobs", 1)
    printed = call("index", tmp_path / "images", *options, code=3)[0]
    printed += call("search", next((tmp_path / "images").glob("1*")), "--collection", place)[0]
    printed += call("search", bad, "--collection", place, code=2)[1]
    assert printed.count("\ufffd[31m") >= 4
    assert not set(printed) & {"\x1b", "\x9b"}


def test_labels_that_look_like_markup_are_compared(tmp_path: Path) -> None:
    for seed in range(4):
        picture(tmp_path / "images" / f"[b]{seed}.png", seed)
    rows = [f"[b]{seed}.png,[/x]{seed % 2}" for seed in range(4)]
    (tmp_path / "images" / "labels.csv").write_text("\n".join(["path,[/x]", *rows]))
    options = ("--labels", tmp_path / "images" / "labels.csv", "--jobs", 1)
    for profile in ("huang2012", "tamura"):
        call("index", tmp_path / "images", "--collection", tmp_path / profile, "--profile", profile, *options)
    a, b = tmp_path / "huang2012", tmp_path / "tamura"
    assert "[/x]" in call("collection", "compare", a, b, "--label", "[/x]")[0]
    found = call("search", tmp_path / "images" / "[b]1.png", "--collection", a)[0]
    assert "[/x]=[/x]1" in found
    assert "/[b]" in "".join(found.split()), "long paths are in several lines"
    assert "[/x]1" in call("collection", "labels", "[/x]", "--collection", a)[0]


def test_the_list_of_encoders_names_extras_and_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(encoder: Encoder) -> None:
        raise InvalidInput("torch is missing: pip install '.[volume]'")

    monkeypatch.setattr(Encoder, "check_available", missing)
    printed = call("encoder", "list")[0]
    assert "pip install '.[volume]'" in printed
    assert "huang2012" in printed


def test_lines_with_names_do_not_control_the_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "ph\x1b[31m\x9b2J"
    printed = CliRunner().invoke(app, ["dataset", "phantoms", str(folder), "--count", "1"]).output
    assert "1 phantoms in" in printed
    assert not set(printed) & {"\x1b", "\x9b"}
    assert (folder / "manifest.csv").exists()
