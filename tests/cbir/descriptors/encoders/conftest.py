"""An empty folder of encoders for each test."""

import pytest


@pytest.fixture(autouse=True)
def encoder_folder(tmp_path, monkeypatch):
    folder = tmp_path / "encoders"
    monkeypatch.setenv("CBIR_ENCODER_FOLDER", str(folder))
    return folder
