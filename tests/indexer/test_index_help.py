"""Help texts and words of the indexing commands."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from tests.cbir.evaluation.small_run import draw
from tests.indexer.commands import call


@pytest.mark.parametrize("arguments", [["index"], ["index", "files"]])
def test_help_shows_the_options_of_indexing_a_folder(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, [*arguments, "--help"])
    assert result.exit_code == 0
    usage = result.output.splitlines()[0]
    assert " index [OPTIONS]" in usage
    assert "SOURCE" in usage
    for option in ("--collection", "--profile", "--weight", "--labels", "--jobs", "--report", "--duplicates"):
        assert option in result.output
    assert "[default: number of cores]" in result.output
    assert "[default: text]" in result.output
    assert "cbir index dicomweb --help" in result.output


def test_help_of_another_source_is_its_own() -> None:
    result = CliRunner().invoke(app, ["index", "dicomweb", "--help"])
    assert result.exit_code == 0
    assert "--modality" in result.output
    assert "--duplicates" not in result.output


def test_files_may_be_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["index", "files", "--collection", "c", "--profile", "tamura", "--jobs", "1"]
    _, errors = call(*words, code=2)
    assert "Missing argument 'SOURCE'" in errors
    Path("files").mkdir()
    draw(Path("files") / "1.png", 1)
    printed, _ = call(*words, "--format", "json")
    assert json.loads(printed)["indexed"] == 1
    for sources in (["files", "files"], ["files", "./files"]):
        _, errors = call("index", *sources, "--collection", "c", code=2)
        assert "write ./files for it, or leave the word files out" in errors
