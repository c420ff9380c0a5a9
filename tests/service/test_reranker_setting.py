"""The setting `rerank` is checked when the service starts."""

from pathlib import Path

import pytest

from cbir import settings
from cbir.errors import InvalidInput
from service.app import create_app


def test_an_unknown_reranker_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CBIR_RERANK", "nonsense")
    with pytest.raises(InvalidInput, match=r"^the setting rerank: .*nonsense"):
        create_app(tmp_path, settings.load())
