"""Fetching of networks by the command line, from folders of the tests."""

import json

import pytest
from typer.testing import CliRunner

from cbir.api.main import app


@pytest.fixture
def get():
    """Run `cbir encoder get`; return its card, or raise its error."""

    def call(*arguments):
        result = CliRunner().invoke(app, ["encoder", "get", *map(str, arguments), "--format", "json"])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return call


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path):
    """Point the hubs' folders to empty ones, and their addresses to a port that no one listens at."""
    import huggingface_hub.constants

    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
