"""Origins of settings."""

import json

import pytest

from cbir import settings
from cbir.api.commands.show_commands import setting_origins, show_config
from cbir.errors import InvalidInput
from cbir.system import device
from cbir.system.console import OutputFormat


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_precedence_of_options_environment_file_and_defaults(tmp_path, monkeypatch):
    assert settings.load().port == 8000
    (tmp_path / "cbir.toml").write_text("port = 8001\nthreads = 3\n")
    assert settings.load().port == 8001
    monkeypatch.setenv("CBIR_PORT", "8002")
    assert settings.load().port == 8002
    assert settings.load(port=8003, host=None).port == 8003
    assert settings.load().threads == 3
    places = setting_origins()
    assert (places["port"], places["threads"], places["host"]) == ("environment", "cbir.toml", "default")


def test_settings_file_from_the_environment(tmp_path, monkeypatch):
    (tmp_path / "other.toml").write_text("port = 9000\n")
    monkeypatch.setenv("CBIR_CONFIG", str(tmp_path / "other.toml"))
    assert settings.load().port == 9000


LISTS = {
    "index_roots": "/a",
    "allowed_hosts": "cbir.example",
    "trusted_proxies": "10.0.0.0/8",
    "frame_origins": "https://ris.example",
    "federation_labels": "modality",
    "dicom_peers": "CT1@10.0.0.0/8",
    "dicom_commitment": "CT1=10.0.0.1:104",
    "oidc_scopes": "openid",
}


def test_lists_in_the_environment_are_json_or_separated_by_commas(monkeypatch):
    assert set(LISTS) == {
        name for name, field in settings.Settings.model_fields.items() if "tuple" in str(field.annotation)
    }
    for name, word in LISTS.items():
        for text in (json.dumps([word]), f" [ {json.dumps(word)} ] ", word):
            monkeypatch.setenv(f"CBIR_{name.upper()}", text)
            assert getattr(settings.load(), name) == (word,)
        monkeypatch.delenv(f"CBIR_{name.upper()}")
    monkeypatch.setenv("CBIR_INDEX_ROOTS", "[]")
    assert settings.load().index_roots == ()


@pytest.mark.parametrize("text", ['["/a"', "[/a]", "[1]", '[["/a"]]', "[" * 100_000])
def test_list_that_is_no_json_is_refused(monkeypatch, text):
    monkeypatch.setenv("CBIR_INDEX_ROOTS", text)
    with pytest.raises(InvalidInput, match="setting index_roots"):
        settings.load()


@pytest.mark.parametrize("text", ["port = 70000", "unknown = 1", "port = 'x'", "not toml"])
def test_invalid_settings_are_named(tmp_path, text):
    (tmp_path / "cbir.toml").write_text(text + "\n")
    with pytest.raises(InvalidInput, match=r"setting|cbir\.toml"):
        settings.load()


def test_config_prints_value_origin_and_meaning(capsys, monkeypatch):
    monkeypatch.setenv("CBIR_PORT", "8002")
    show_config(OutputFormat.json)
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["port"]["value"] == 8002
    assert rows["port"]["from"] == "environment"
    assert rows["port"]["what"]


def test_config_says_which_device_is_used_and_why(capsys, monkeypatch):
    monkeypatch.setenv("CBIR_DEVICE", "cpu")
    show_config(OutputFormat.text)
    assert capsys.readouterr().out.splitlines()[-1] == "device in use: cpu, because device=cpu is set"
    monkeypatch.setattr(device, "DRIVERS", ())
    monkeypatch.setattr(device, "_results", {})
    monkeypatch.setenv("CBIR_DEVICE", "auto")
    show_config(OutputFormat.json)
    (row,) = (row for row in json.loads(capsys.readouterr().out) if row["name"] == "device")
    assert (row["value"], row["in_use"], row["because"]) == ("auto", "cpu", "this machine has no GPU driver")
