"""Licences of dependencies: the check of `make lint` on packages of its own, and THIRD_PARTY.md against reality."""

import hashlib
import json
import re
from importlib.metadata import Distribution
from importlib.util import find_spec
from pathlib import Path

import pytest

from cbir.descriptors.networks.model_card import ASTRA, LITE0, LITE1
from release import bundled_libraries, check_licences, licences
from tests.project.sources import ROOT

THIRD_PARTY = (ROOT / "THIRD_PARTY.md").read_text()
SORTERS = ROOT / "cbir" / "learn" / "models" / "sorters" / "weights"


def package(folder: Path, *lines: str, record: str = "") -> Distribution:
    """Return a distribution with some lines of metadata."""
    (folder / "METADATA").write_text("\n".join(["Metadata-Version: 2.4", "Name: thing", *lines, ""]))
    (folder / "RECORD").write_text(record)
    return Distribution.at(folder)


@pytest.mark.parametrize(
    ("lines", "licence", "allowed"),
    [
        (["License-Expression: MIT"], "MIT", True),
        (["License-Expression: MPL-2.0 AND (Apache-2.0 OR GPL-2.0-only)"], None, True),
        (["License-Expression: MIT OR GPL-3.0-only"], None, True),
        (["License-Expression: MIT AND GPL-3.0-only"], None, False),
        (["License-Expression: Apache-2.0 WITH LLVM-exception"], None, True),
        (["License: BSD", "Classifier: License :: OSI Approved :: MIT License"], "MIT", True),
        (["Classifier: License :: OSI Approved", "License: 3-Clause BSD License"], "BSD-3-Clause", True),
        (["License: Apache 2.0"], "Apache-2.0", True),
        (["License: Copyright (c) 2015, somebody"], "Copyright (c) 2015, somebody", False),
        (["License: UNKNOWN"], "UNKNOWN", False),
        ([], "unknown", False),
    ],
)
def test_declared_licences(tmp_path, lines, licence, allowed):
    declared = licences.declared_licence(package(tmp_path, *lines))
    assert declared == (licence or lines[0].removeprefix("License-Expression: "))
    assert licences.is_allowed(declared) is allowed


def problems_of(monkeypatch, found, name="thing", extras=("pacs",)):
    """Return what the check says about one package."""
    monkeypatch.setattr(check_licences, "installed", {name: found}.get)
    return check_licences.problems({extra: {name} for extra in extras}, {name})


@pytest.mark.parametrize(
    "line",
    [
        "Classifier: License :: OSI Approved :: GNU General Public License v3 (GPLv3)",
        "Classifier: License :: OSI Approved :: GNU Affero General Public License v3",
        "License: GPLv3",
        "License: GPL V3.0",
        "License-Expression: AGPL-3.0-or-later",
        "License-Expression: MIT AND GPL-2.0-only",
    ],
)
@pytest.mark.parametrize("name", ["thing", "psycopg"])
def test_the_gpl_is_refused_also_for_packages_that_are_named(tmp_path, monkeypatch, line, name):
    (problem,) = problems_of(monkeypatch, package(tmp_path, line), name, ["postgres"])
    assert problem.startswith(f"{name} (postgres) is refused: its licence is ")


def test_other_licences_are_named_with_those_who_bring_them(tmp_path, monkeypatch):
    lesser = package(tmp_path, "License-Expression: LGPL-3.0-only")
    (problem,) = problems_of(monkeypatch, lesser)
    assert problem.startswith("thing (pacs) has the licence LGPL-3.0-only: allow it, or name")
    assert problems_of(monkeypatch, lesser, "psycopg", ["postgres", "all"]) == []
    (problem,) = problems_of(monkeypatch, lesser, "psycopg", ["postgres", "pacs"])
    assert problem == "psycopg is named for all, postgres, test, unit, but comes with pacs, postgres"


def test_packages_that_are_missing_or_left_over(monkeypatch):
    (problem,) = problems_of(monkeypatch, None)
    assert problem == "thing (pacs) is not installed: make lint needs all extras"
    assert check_licences.problems({"pacs": set()}, {"thing"}) == ["thing is locked, but no extra brings it"]


def test_libraries_inside_of_wheels(tmp_path, monkeypatch):
    record = "thing.libs/libgomp-e985bcbb.so.1.0.0,sha256=x,1\nthing.libs/libx264-a1.so.164,sha256=y,2\n"
    found = package(tmp_path, record=record)
    monkeypatch.setattr(bundled_libraries, "installed", {"thing": found, "shapely": found}.get)
    assert set(bundled_libraries.bundled_libraries("thing")) == {"libgomp", "libx264"}
    (problem,) = bundled_libraries.bundled_problems({"thing", "shapely"})
    assert problem == "thing brings libx264: name it in release/bundled_libraries.py"


@pytest.mark.slow
def test_the_licences_of_this_installation(capsys):
    assert check_licences.main([]) == 0, capsys.readouterr().out
    printed = capsys.readouterr().out
    assert "psycopg, psycopg-binary: LGPL-3.0-only, by all, postgres, test, unit" in printed


@pytest.mark.slow
def test_what_each_extra_brings():
    extras = licences.packages_by_extra()
    assert {"numpy", "imagecodecs"} <= extras[licences.BASE]
    assert extras["oidc"] >= extras["serve"] >= {"flask", "gunicorn", "jinja2", "prometheus-client"}
    assert extras["pacs"] >= {"pynetdicom", "pyjpegls"}  # that of highdicom
    assert not extras["pacs"] & extras[licences.BASE]
    assert extras["all"] >= extras["hub"] >= extras["deep"] >= {"torch"}
    assert "pylibjpeg-libjpeg" not in set().union(*extras.values()) | licences.locked_here()


@pytest.mark.slow
def test_the_packages_of_the_image():
    for table in check_licences.image_tables():
        assert f"\n{table}\n\n" in THIRD_PARTY, "python -m release.check_licences --image prints the tables"


def test_weights_and_their_hashes():
    rows = re.findall(
        r"^\| [`\w -]+ \| ([\w.-]+) \| ([^|]+) \| `([0-9a-f]{64})` \|$", THIRD_PARTY, re.MULTILINE
    )
    hashes = {file: sha256 for file, _, sha256 in rows}
    assert len(rows) == len(hashes)
    spec = find_spec("rapidocr")
    assert spec is not None
    assert spec.origin is not None
    reader = Path(spec.origin).parent / "models" / "PP-OCRv6_rec_small.onnx"
    files = {LITE0.file: LITE0.path("lite0"), LITE1.file: LITE1.path("lite1"), reader.name: reader}
    files |= {path.name: path for path in SORTERS.glob("*.safetensors")}
    assert set(hashes) == {*files, ASTRA.part}
    assert hashes[ASTRA.part] == ASTRA.sha256
    for name, path in files.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == hashes[name], name
    for path in SORTERS.glob("*.json"):
        assert json.loads(path.read_text())["sha256"] == hashes[path.with_suffix(".safetensors").name]
