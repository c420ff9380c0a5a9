"""Help texts of the indexing commands."""

import pytest
from typer.testing import CliRunner

from cbir.main import app


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
