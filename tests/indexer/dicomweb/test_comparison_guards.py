"""A comparison deletes nothing because an archive is another one, empty, restarting, or lists what it likes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from pydicom import Dataset

from cbir import settings
from cbir.errors import ArchiveFailed
from cbir.images import Limits
from cbir.store import Collection
from cbir.store.collection_address import collection_folder
from cbir.store.records import quarantine
from cbir.store.records.add_transaction import Added
from cbir.store.records.records import Entry, hash_patient
from cbir.store.upkeep.archive_instances import stored_copies
from cbir.store.upkeep.quarantine_release import read_quarantined
from cbir.store.writing.writer import Writer
from indexer.describe_instance import InstanceFilter
from indexer.dicomweb import archive_requests
from indexer.dicomweb.archive_comparison import ArchiveComparison, ComparisonOptions
from indexer.dicomweb.archive_items import StudyFilter
from indexer.dicomweb.archive_requests import open_session
from indexer.dicomweb.compare_command import compare_all
from indexer.dicomweb.crawl import Crawl
from indexer.dicomweb.dicomweb_archive import DicomwebArchive
from indexer.index_request import open_collection
from indexer.intake import Intake
from tests.indexer.dicomweb.small_archive import SmallArchive, serving
from tests.indexer.dicomweb.test_item_failures import covers
from tests.indexer.receiving import slices
from tests.postgresql_server import PostgresqlServer


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_requests, "PAUSE_SECONDS", 0.01)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the collection is: a folder, or an address in PostgreSQL."""
    if request.param == "sqlite":
        yield tmp_path / "collection"
        return
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    monkeypatch.setenv("CBIR_COLLECTION_FILES", str(tmp_path / "files"))
    address = server.new_address()
    yield collection_folder(address)
    server.drop_schemas([address])


def study(number: int, count: int = 2, patient: str = "P", seed: int = 0) -> list[Dataset]:
    instances = list(slices(count, 32, f"1.2.826.{number}", seed=seed or number))
    for one in instances:
        one.PatientID = patient
    return instances


@dataclass
class Followed:
    """A collection at `place`, and the archive that it follows. named: what the last comparison reported."""

    archive: SmallArchive
    url: str
    place: Path
    stop: Event = field(default_factory=Event)
    named: list[tuple[str, str]] = field(default_factory=list)

    def add(self, study_dates: str = "drop") -> None:
        """Index what the archive has."""
        with open_collection(self.place) as opened:
            intake = self._intake(opened, InstanceFilter(study_dates=study_dates))
            Crawl(DicomwebArchive(self.url, open_session([], 2**20)), intake, StudyFilter(), 2, Event())()
            intake.close()

    def compare(self, **options: object) -> dict[str, int]:
        """Counts of a comparison that is applied."""
        self.named.clear()
        with Collection(self.place) as opened:
            intake = self._intake(opened, InstanceFilter(study_dates="shift"))
            comparison = ArchiveComparison(
                opened,
                DicomwebArchive(self.url, open_session([], 2**20)),
                intake,
                settings.load(),
                ComparisonOptions(**{"apply": True} | options),
                jobs=2,
                stop=self.stop,
                report=lambda item, reason: self.named.append((str(item), reason)),
            )
            try:
                compare_all(comparison)
            finally:
                intake.close()
        return dict(+comparison.counts)

    def _intake(self, opened: Collection, chosen: InstanceFilter | None = None) -> Intake:
        return Intake(
            opened,
            instance_filter=chosen or InstanceFilter(),
            limits=Limits(),
            jobs=1,
            who="test",
            settings=settings.load(),
        )

    def instances(self) -> set[str]:
        with Collection(self.place) as opened:
            return {record.instance for _, record in opened.iterate()}

    def study_dates(self) -> set[str | None]:
        with Collection(self.place) as opened:
            return {record.labels.get("study_date") for _, record in opened.iterate()}

    def copies(self) -> set[str]:
        with Collection(self.place) as opened:
            return {copy.instance for copy in stored_copies(opened, "", 100)}


@pytest.fixture
def followed(place: Path) -> Iterator[Followed]:
    """Two studies, and an instance of a third that shows a picture of the first."""
    archive = SmallArchive([*study(1), *study(2), *study(3, 1, seed=1)])
    archive.has_matching = True
    with serving(archive) as url:
        made = Followed(archive, url, place)
        made.add()
        assert (len(made.instances()), len(made.copies())) == (4, 1)
        yield made


def uids(instances: list[Dataset]) -> set[str]:
    return {str(one.SOPInstanceUID) for one in instances}


def test_it_follows_patients_pixels_deletions_and_copies(followed: Followed) -> None:
    merged, cleaned = study(1, patient="NEW"), study(2)
    pixels = np.frombuffer(cleaned[0].PixelData, "<u2").copy()
    pixels[:200] = 0
    cleaned[0].PixelData = pixels.tobytes()
    for one in (*merged, *cleaned):
        followed.archive.put(one)
    del followed.archive.instances[str(cleaned[1].SOPInstanceUID)]
    (copy,) = uids(study(3, 1))
    del followed.archive.instances[copy]
    with Collection(followed.place) as opened, opened.writer() as writer:
        ids = {record.instance: record.image_id for _, record in opened.iterate()}
        writer.set_labels(ids[str(cleaned[0].SOPInstanceUID)], {"finding": "nodule"})
    expected = {"another patient": 2, "other pixels": 1, "deleted from the archive": 2}
    assert followed.compare(apply=False) == expected
    assert followed.compare() == expected
    assert followed.compare() == {"equal": 3}
    assert followed.copies() == set()
    with Collection(followed.place) as opened:
        keys = {record.instance: record.patient_key for _, record in opened.iterate()}
        labels = {record.instance: record.labels for _, record in opened.iterate()}
        new, old = (hash_patient(opened.secret, name) for name in ("NEW", "P"))
    assert keys == dict.fromkeys(uids(merged), new) | {str(cleaned[0].SOPInstanceUID): old}
    assert labels[str(cleaned[0].SOPInstanceUID)]["finding"] == "nodule"
    assert followed.study_dates() == {None}, "they had none before"


@pytest.mark.parametrize("is_kept", [False, True])
def test_instances_with_one_frame_and_with_several_replace_each_other(
    followed: Followed, is_kept: bool
) -> None:
    def several(pixels: bytes) -> Dataset:
        (one,) = study(8, 1)
        one.NumberOfFrames, one.PixelData = 2, pixels + one.PixelData[::-1]
        return one

    (single,) = study(8, 1)
    first = single.PixelData if is_kept else single.PixelData[2:] + single.PixelData[:2]
    for before, after, frames in ((single, several(first), {1, 2}), (several(first), single, {None})):
        followed.archive.put(before)
        followed.compare()
        followed.add()
        followed.archive.put(after)
        assert followed.compare() == {"other pixels": 1, "equal": 5}
        with Collection(followed.place) as opened:
            records = [record for _, record in opened.iterate()]
        assert {record.frame for record in records if record.instance == str(single.SOPInstanceUID)} == frames
        assert followed.compare() == {"equal": 6}


def test_the_shifted_date_of_a_moved_image_is_that_of_its_patient(place: Path) -> None:
    archive = SmallArchive(study(1))
    archive.has_matching = True
    with serving(archive) as url:
        made = Followed(archive, url, place)
        made.add("shift")
        before = made.study_dates()
        for one in study(1, patient="NEW"):
            archive.put(one)
        assert made.compare() == {"another patient": 2}
        after = made.study_dates()
    assert len(before) == len(after) == 1
    assert None not in before | after
    assert before != after


def test_an_empty_archive_deletes_nothing(followed: Followed) -> None:
    before = followed.instances(), followed.copies()
    followed.archive.instances.clear()
    with pytest.raises(ArchiveFailed, match="Nothing was deleted"):
        followed.compare()
    assert (followed.instances(), followed.copies()) == before


def test_an_archive_that_ignores_queries_deletes_nothing(followed: Followed) -> None:
    before = followed.instances(), followed.copies()
    followed.archive.has_matching = False
    for one in uids([*study(1), *study(2), *study(3, 1)]):
        del followed.archive.instances[one]
    followed.archive.put(study(9, 1)[0])
    assert set(followed.compare()) == {"not compared"}
    assert (followed.instances(), followed.copies()) == before


@pytest.mark.parametrize("status", [400, 404, 501])
def test_an_archive_that_does_not_find_instances_deletes_nothing(followed: Followed, status: int) -> None:
    before = followed.instances(), followed.copies()
    for one in uids([*study(2), study(1)[0]]):
        del followed.archive.instances[one]
    followed.archive.failure = lambda path: status if "/dicom-web/instances" in path else 0
    assert followed.compare() == {"equal": 1, "not compared": 4}
    assert (followed.instances(), followed.copies()) == before


def test_a_proxy_that_answers_404_for_a_restarting_archive_deletes_nothing(followed: Followed) -> None:
    before = followed.instances(), followed.copies()
    asked: list[str] = []

    def restarts(path: str) -> int:
        asked.append(path)
        return 404 if any("StudyInstanceUID=1.2.826.2" in earlier for earlier in asked) else 0

    followed.archive.failure = restarts
    with pytest.raises(ArchiveFailed, match="not a DICOMweb service"):
        followed.compare()
    assert (followed.instances(), followed.copies()) == before


def test_a_study_that_was_sent_again_meanwhile_stays(followed: Followed) -> None:
    gone = [str(one.SOPInstanceUID) for one in study(2)]
    data = {uid: followed.archive.instances.pop(uid) for uid in gone}

    def returns(path: str) -> int:
        if (
            "/dicom-web/instances" in path and "SOPInstanceUID=1.2.826.3" in path
        ):  # the copy comes after the studies
            followed.archive.instances.update(data)
        return 0

    followed.archive.failure = returns
    followed.compare()
    assert set(gone) <= followed.instances()


def test_archives_that_answer_404_for_no_match_are_followed(followed: Followed) -> None:
    for one in uids(study(2)):
        del followed.archive.instances[one]
    followed.archive.failure = lambda path: 404 if "StudyInstanceUID=1.2.826.2" in path else 0
    assert followed.compare() == {"equal": 3, "deleted from the archive": 2}
    assert followed.instances() == uids(study(1))
    assert followed.archive.fetched


def test_a_moved_instance_comes_again(followed: Followed) -> None:
    moved = study(2)
    for one in moved:
        one.StudyInstanceUID = "1.2.826.8"
        followed.archive.put(one)
    assert followed.compare() == {"equal": 3, "moved to another study": 2}
    followed.add()
    assert followed.instances() == uids([*study(1), *moved])


def test_an_interrupted_comparison_deletes_nothing_more(followed: Followed) -> None:
    for one in uids(study(2)):
        del followed.archive.instances[one]
    followed.stop.set()
    assert followed.compare() == {}
    assert len(followed.instances()) == 4


def test_an_archive_that_delivers_another_instance_changes_nothing(followed: Followed) -> None:
    before = followed.instances()
    first, second = (str(one.SOPInstanceUID) for one in study(1))
    followed.archive.instances[first] = followed.archive.instances[second]
    assert followed.compare() == {"equal": 4, "not compared": 1}
    assert any(
        reason == "not compared: the archive delivers another instance" for _, reason in followed.named
    )
    assert followed.instances() == before


def test_a_change_that_cannot_be_written_stops_no_other(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged, cleaned = study(1, patient="NEW"), study(2)
    for one in cleaned:
        one.PixelData = bytes(len(one.PixelData) // 2) + one.PixelData[len(one.PixelData) // 2 :]
    for one in (*merged, *cleaned):
        followed.archive.put(one)
    add, poison = Writer.add, str(cleaned[0].SOPInstanceUID)

    def fails(writer: Writer, entries: Sequence[Entry], **options: Any) -> Added:
        if any(record.instance == poison for record, _ in entries):
            raise ValueError
        return add(writer, entries, **options)

    monkeypatch.setattr(Writer, "add", fails)
    assert followed.compare() == {"another patient": 2, "other pixels": 1, "not compared": 1, "equal": 1}
    assert poison in followed.instances()
    monkeypatch.undo()
    assert followed.compare() == {"other pixels": 1, "equal": 4}


def test_quarantined_images_are_refused_by_no_empty_archive(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = SmallArchive(study(1))
    archive.has_matching = True
    with serving(archive) as url:
        made = Followed(archive, url, place)
        made.add()
        with Collection(place) as opened, opened.writer() as writer:
            entries = [(record, opened.vector(record.image_id)) for _, record in opened.iterate()]
            writer.add([], replaces=[record.image_id for record, _ in entries])
            with writer._engine.begin() as connection:
                quarantine.hold(connection, entries, {}, "test")
        kept = archive.instances.copy()
        archive.instances.clear()
        with pytest.raises(ArchiveFailed, match="Nothing was deleted"):
            made.compare()
        archive.instances.update(kept)
        assert made.compare() == {"equal": 2}
        merged = study(1, patient="NEW")
        archive.put(merged[1])
        assert made.compare() == {"equal": 1, "another patient": 1}
        assert made.compare() == {"equal": 2}
        del archive.instances[str(merged[0].SOPInstanceUID)]
        assert made.compare() == {"equal": 1, "deleted from the archive": 1}
        with Collection(place) as opened:
            assert len(read_quarantined(opened, "", 10)) == 1
        merged[1].PixelData = bytes(len(merged[1].PixelData))
        archive.put(merged[1])
        assert made.compare() == {"other pixels": 1}
        with Collection(place) as opened:
            assert not read_quarantined(opened, "", 10)


def test_what_a_filter_leaves_out_stays(followed: Followed) -> None:
    before = followed.instances(), followed.copies()
    for one in uids([*study(2), study(1)[0], *study(3, 1)]):
        del followed.archive.instances[one]
    assert followed.compare(study_filter=StudyFilter(body_parts=("HEAD",))) == {"left out by option": 5}
    assert (followed.instances(), followed.copies()) == before


def test_a_list_with_a_gap_deletes_nothing_of_its_study(followed: Followed) -> None:
    hidden, deleted = str(study(1)[0].SOPInstanceUID), str(study(2)[1].SOPInstanceUID)
    del followed.archive.instances[deleted]

    def fails(path: str) -> int:
        if "/studies/1.2.826.1/" in path and covers(path, 0):
            return 500
        return 404 if path.endswith(f"/{hidden}") else 0

    followed.archive.failure = fails
    assert followed.compare() == {"equal": 3, "not compared": 1, "deleted from the archive": 1}
    assert followed.instances() == uids([*study(1), study(2)[0]])


def test_without_pixels_a_study_of_two_patients_is_fetched(followed: Followed) -> None:
    merged = study(1, patient="NEW")
    followed.archive.put(merged[0])
    assert followed.compare(with_pixels=False) == {"another patient": 1, "equal": 4}
    followed.archive.put(merged[1])
    assert followed.compare(with_pixels=False) == {"another patient": 1, "equal": 4}
    followed.archive.fetched.clear()
    assert followed.compare(with_pixels=False) == {"equal": 5}
    assert followed.archive.fetched == ["1.2.826.3.1"], "of the copy alone"


def test_an_archive_that_has_moved_everything_is_the_right_one(followed: Followed) -> None:
    for one in uids([*study(1), *study(3, 1)]):
        del followed.archive.instances[one]
    for one in study(2):
        one.StudyInstanceUID = "1.2.826.8"
        followed.archive.put(one)
    assert followed.compare() == {"moved to another study": 2, "deleted from the archive": 3}
    assert followed.instances() == set()
