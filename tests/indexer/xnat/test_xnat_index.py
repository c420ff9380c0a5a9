"""`cbir index xnat://PROJECT`: interruption and continuation, patients, changes in XNAT."""

from pathlib import Path

import pytest

from cbir.store import Collection
from cbir.store.records.records import hash_patient
from tests.indexer.commands import call, index
from tests.indexer.xnat.conftest import FILES, ONE
from tests.indexer.xnat.small_xnat import SmallXnat

pytest.importorskip("httpx")
pytestmark = pytest.mark.slow

SOURCES = [
    ONE,
    "xnat://BONES/XNAT_S00001/XNAT_E00001/1/DICOM/sub/a b#ü",
    "xnat://BONES/XNAT_S00001/XNAT_E00002/1/DICOM/1.dcm",
    "xnat://BONES/XNAT_S00002/XNAT_E00003/7/secondary/1.dcm",
    "xnat://BONES/XNAT_S00002/XNAT_E00003/7/secondary/2.dcm",
]


@pytest.mark.usefixtures("spawned_workers")  # a forked one would not log out as it ends
def test_an_interrupted_command_continues(xnat: SmallXnat, tmp_path: Path) -> None:
    place = tmp_path / "collection"
    options = ("--collection", place, "--jobs", 1, "--profile", "huang2012")
    xnat.files_left = 2
    _, errors = call("index", "xnat://BONES", *options, code=2)
    assert "it answered 503; run the command again to continue" in errors
    with Collection(place) as collection:
        assert [record.source for _, record in collection.iterate()] == SOURCES[:2]
    xnat.files_left = 3
    resumed = index("xnat://BONES", place)
    assert (resumed["indexed"], resumed["already"], resumed["refused"]) == (3, 2, 0)
    with Collection(place) as collection:
        records = [record for _, record in collection.iterate()]
        jane, john = (hash_patient(collection.secret, name) for name in ("Jane_Roe", "John_Doe"))
    assert [record.source for record in records] == SOURCES
    assert [record.patient_key for record in records] == [jane] * 3 + [john] * 2
    assert "Roe" not in str(records)
    assert [record.labels["modality"] for record in records] == ["CT"] * 5
    assert len(xnat.open_sessions) == 1, "of this process; those that describe have logged out"
    xnat.files_left = None
    check_nothing_is_read_again(xnat, place)
    check_changes(xnat, place)


def check_nothing_is_read_again(xnat: SmallXnat, place: Path) -> None:
    xnat.asked.clear()
    again = index("xnat://BONES", place)
    assert (again["indexed"], again["already"], again["relabelled"]) == (0, 5, 0)
    assert not [path for _, path in xnat.asked if path.endswith(".dcm")]


def check_changes(xnat: SmallXnat, place: Path) -> None:
    """A new file is read, one with other content too; a subject that was renamed is another patient."""
    jane = xnat.subjects["XNAT_S00001"]
    jane.sessions["XNAT_E00001"].scans["1"].resources["DICOM"]["1.dcm"] = FILES[5]
    jane.label = "Janet_Roe"
    changed = index("xnat://BONES", place)
    assert (changed["indexed"], changed["already"], changed["relabelled"]) == (1, 4, 2)
    with Collection(place) as collection:
        keys = {record.patient_key for _, record in collection.iterate() if "S00001" in record.source}
        assert keys == {hash_patient(collection.secret, "Janet_Roe")}


def test_one_session_and_one_file_that_fail_stop_nothing(xnat: SmallXnat, tmp_path: Path) -> None:
    report = tmp_path / "report.csv"
    xnat.broken = {
        "/experiments/XNAT_E00001/scans": 500,
        "/XNAT_E00003/scans/7/resources/secondary/files/1.dcm": 500,
    }
    place = tmp_path / "collection"
    summary = index("xnat://BONES", place, "--report", report, code=3)
    with Collection(place) as collection:
        assert [record.source for _, record in collection.iterate()] == [SOURCES[2], SOURCES[4]]
    assert summary["refused"] == 2
    assert "xnat://BONES/XNAT_S00001/XNAT_E00001," in report.read_text()
    assert f"{SOURCES[3]}," in report.read_text()
    xnat.broken = {"/experiments/XNAT_E00001/scans": 403}
    assert index("xnat://BONES", place, code=3)["indexed"] == 1
    xnat.broken = {"/experiments/XNAT_E00001/scans": 404, "/XNAT_E00003/scans/7/files": 404}
    assert index("xnat://BONES", place, code=3)["refused"] == 2
    xnat.broken = {}
    assert index("xnat://BONES", place)["indexed"] == 2


def test_a_session_that_fails_does_not_hide_a_server_that_fails(xnat: SmallXnat, tmp_path: Path) -> None:
    xnat.broken = {"/experiments/XNAT_E00001/scans": 500, "/projects/BONES/subjects": 500}
    _, errors = call("index", "xnat://BONES", "--collection", tmp_path / "none", code=2)
    assert "it answered 500" in errors
