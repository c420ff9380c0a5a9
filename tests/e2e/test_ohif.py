"""Our panel in a real OHIF, with a real Orthanc behind it."""

import json
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.e2e.ohif import DIST, viewing, write_files
from tests.indexer.orthanc import needs_orthanc


@needs_orthanc
@pytest.mark.skipif(not DIST.exists(), reason="there is no OHIF; `make ohif` brings it")
def test_similar_studies_in_the_viewer(tmp_path: Path) -> None:
    of_study = write_files(tmp_path / "files", 30)
    study = next(uid for uid, series in of_study.items() if len(series) > 1)
    with viewing(tmp_path, tmp_path / "files", "--profile", "huang2012") as (network, address):
        words = [sys.executable, "-m", "tests.e2e.ohif_session", address, study, tmp_path / "panel.png"]
        seen = json.loads(network.run(*words))
    asked = [parse_qs(urlsplit(seen[name]).query) for name in ("first", "second")]
    assert [one["study"] for one in asked] == [[study], [study]]
    assert {one["series"][0] for one in asked} == of_study[study]
    assert seen["cards"] > 3
    assert seen["dark"]
    (opened,) = parse_qs(urlsplit(seen["opened"]).query)["StudyInstanceUIDs"]
    assert opened in set(of_study) - {study}
    assert seen["errors"] == []
