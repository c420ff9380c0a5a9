"""Days of studies, and answers of an Orthanc's /changes and /studies that are others than Orthanc's."""

from pathlib import Path

import pytest

from cbir.errors import ArchiveFailed
from indexer.dicomweb.archive_items import ArchiveStudy, StudyFilter
from indexer.dicomweb.archive_requests import open_session
from indexer.dicomweb.dicomweb_archive import DicomwebArchive
from indexer.dicomweb.orthanc_lists import OrthancChanges
from tests.indexer.dicomweb.small_archive import SmallArchive, serving
from tests.indexer.receiving import slices
from tests.service.conftest import refusal

MOST = 2**20


@pytest.fixture
def small() -> SmallArchive:
    return SmallArchive(list(slices(2, 32)))


@pytest.mark.parametrize("empty", [{"vr": "DA"}, {"vr": "DA", "Value": []}])
def test_a_study_that_is_listed_with_an_empty_date_matches_no_range(
    small: SmallArchive, empty: dict[str, object]
) -> None:
    """Some archives find studies without a date by any."""
    small.fixed["/dicom-web/studies"] = [
        {"0020000D": {"vr": "UI", "Value": [small.study]}, "00080020": empty}
    ]
    chosen = StudyFilter(since="20200101")
    with serving(small) as url:
        study = next(DicomwebArchive(url, open_session([], MOST)).studies(chosen.query()))
    assert not chosen.matches_study(study)
    assert StudyFilter().matches_study(study)


@pytest.mark.parametrize(
    ("days", "message"),
    [
        (("--since", "20240230"), "'20240230' is not a day"),
        (("--until", "2024-01-01"), "'2024-01-01' is not a day"),
        (("--since", "٢٠٢٤٠١٣١"), "is not a day"),
        (("--since", "20250101", "--until", "20241231"), "--since 20250101 is later than --until 20241231"),
    ],
)
def test_days_that_no_study_can_have(days: tuple[str, ...], message: str, tmp_path: Path) -> None:
    """They are refused before the archive is asked."""
    said = refusal("index", "dicomweb", "http://127.0.0.1:9/x", "--collection", tmp_path / "c", *days)
    assert message in said


@pytest.mark.parametrize(
    "answer",
    [
        [],
        {"Last": None},
        {"Last": "many"},
        {"Changes": None},
        {"Changes": "abc"},
        {"Changes": [1]},
        {"Changes": [{"Seq": None}]},
    ],
)
def test_other_json_than_a_list_of_changes(small: SmallArchive, answer: object) -> None:
    """A watch goes on after it, as after every failure of the archive."""
    session = open_session([], MOST)
    small.fixed = {"/changes": {"Changes": [], "Last": 1}}
    with serving(small) as url:
        changes = OrthancChanges(url.removesuffix("/dicom-web"), session)
        small.fixed = {"/changes": answer}
        with pytest.raises(ArchiveFailed, match="name Orthanc's own address"):
            list(changes.stable_studies())


@pytest.mark.parametrize("answer", [[], {"MainDicomTags": None}, {"MainDicomTags": [1]}])
def test_a_study_that_orthanc_does_not_describe_comes_later(small: SmallArchive, answer: object) -> None:
    identifier = "-".join(["0a0a0a0a"] * 5)
    small.fixed = {"/changes": {"Changes": [], "Last": 0}}
    with serving(small) as url:
        changes = OrthancChanges(url.removesuffix("/dicom-web"), open_session([], MOST))
        announced = {"Seq": 1, "ChangeType": "StableStudy", "ID": identifier}
        small.fixed = {
            "/changes": {"Changes": [announced], "Done": True, "Last": 1},
            f"/studies/{identifier}": answer,
        }
        assert list(changes.stable_studies()) == []
        small.fixed[f"/studies/{identifier}"] = {
            "MainDicomTags": {"StudyInstanceUID": "1.2", "StudyDate": ""}
        }
        small.fixed["/changes"] = {"Changes": [], "Done": True, "Last": 1}
        assert list(changes.stable_studies()) == [ArchiveStudy("1.2", day="")]
