"""A collection follows what has changed in a real Orthanc: patients, pixels, deletions."""

import csv
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pydicom import Dataset

from cbir.store import Collection
from cbir.store.records.records import hash_patient
from tests.indexer.dicomweb.test_orthanc import STUDIES, put
from tests.indexer.orthanc import URL, Namespace, namespace, needs_orthanc, orthanc
from tests.indexer.receiving import CBIR, file_of, slices

pytestmark = needs_orthanc

DELETE = (
    "import sys,urllib.request as u; u.urlopen(u.Request(sys.argv[1], method='DELETE'), timeout=60).read()"
)


@pytest.fixture(scope="module")
def network() -> Iterator[Namespace]:
    with namespace() as made:
        yield made


def study(number: int, count: int, patient: str) -> list[Dataset]:
    instances = list(slices(count, 32, f"1.2.826.{number}", seed=number))
    for one in instances:
        one.PatientID = patient
    return instances


def send(network: Namespace, folder: Path, instances: list[Dataset]) -> None:
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{one.SOPInstanceUID}.dcm" for one in instances]
    for path, one in zip(paths, instances, strict=True):
        path.write_bytes(file_of(one))
    put(network, paths)


def remove(network: Namespace, uid: str) -> None:
    """Delete a study from Orthanc."""
    for found in network.get("/studies?expand"):
        if found["MainDicomTags"]["StudyInstanceUID"] == uid:
            network.run(sys.executable, "-c", DELETE, f"{URL}/studies/{found['ID']}")


class Compared:
    """A collection of what an Orthanc in `network` has, and its comparison."""

    def __init__(self, network: Namespace, folder: Path) -> None:
        self.network, self.folder, self.collection = network, folder, folder / "collection"

    def run(self, *options: str | Path, code: int = 0) -> str:
        command = (
            *CBIR,
            "index",
            "dicomweb",
            STUDIES,
            "--collection",
            self.collection,
            "--jobs",
            "1",
            *options,
        )
        return self.network.run(*command, code=code, env=os.environ | {"CBIR_KEEP_ORIGINALS": "1"})

    def compare(self, *options: str | Path, code: int = 0) -> dict[str, int]:
        """The counts, of the first line that is JSON."""
        printed = self.run("--compare", "--format", "json", *options, code=code)
        return dict(json.loads(next(line for line in printed.splitlines() if line.startswith("{"))))

    def would_erase(self, patient: str) -> int:
        command = (
            *CBIR,
            "collection",
            "erase-patient",
            patient,
            "--collection",
            self.collection,
            "--dry-run",
        )
        return int(json.loads(self.network.run(*command, "--format", "json"))["would_erase"])

    def patients(self) -> dict[str, str | None]:
        """Patient keys by SOP Instance UID."""
        with Collection(self.collection) as opened:
            return {record.instance: record.patient_key for _, record in opened.iterate()}

    def key(self, patient: str) -> str | None:
        with Collection(self.collection) as opened:
            return hash_patient(opened.secret, patient)


def test_the_collection_follows_patients_pixels_and_deletions(network: Namespace, tmp_path: Path) -> None:
    merged, cleaned, deleted, kept = (study(n, 3, f"OLD-{n}") for n in (1, 2, 3, 4))
    one = Compared(network, tmp_path)
    with orthanc(network, tmp_path / "orthanc"):
        send(network, tmp_path / "first", [*merged, *cleaned, *deleted, *kept])
        one.run()
        assert one.compare() == {"equal": 12}
        with Collection(one.collection) as opened, opened.writer() as writer:
            before = {record.instance: (number, record) for number, record in opened.iterate()}
            writer.set_labels(before[cleaned[0].SOPInstanceUID][1].image_id, {"finding": "nodule"})
            writer.set_labels(before[merged[0].SOPInstanceUID][1].image_id, {"finding": "cyst"})
        for uid in ("1.2.826.1", "1.2.826.2", "1.2.826.3"):
            remove(network, uid)
        for ds in merged:
            ds.PatientID = "MERGED"
        pixels = np.frombuffer(cleaned[0].PixelData, "<u2").reshape(32, 32).copy()
        pixels[:8] = 0
        cleaned[0].PixelData = pixels.tobytes()
        send(network, tmp_path / "second", [*merged, *cleaned])

        report = tmp_path / "report.csv"
        expected = {"another patient": 3, "deleted from the archive": 3, "equal": 5, "other pixels": 1}
        assert one.compare("--report", report, code=1) == expected
        rows = {row["instance"]: row["reason"] for row in csv.DictReader(report.read_text().splitlines())}
        assert rows[str(cleaned[0].SOPInstanceUID)] == "other pixels"
        assert rows[str(deleted[0].SOPInstanceUID)] == "deleted from the archive"
        assert one.would_erase("MERGED") == 0  # listed only
        assert one.would_erase("OLD-1") == 3

        assert one.compare("--apply") == expected
        assert one.compare() == {"equal": 9}
        assert one.would_erase("MERGED") == 3
        assert one.would_erase("OLD-1") == 0
        assert one.would_erase("OLD-2") == 3
        one.run()  # adds nothing back

    with Collection(one.collection) as opened:
        after = {record.instance: (number, record) for number, record in opened.iterate()}
        assert set(after) == {str(ds.SOPInstanceUID) for ds in (*merged, *cleaned, *kept)}
        first, earlier = (which[cleaned[0].SOPInstanceUID] for which in (after, before))
        assert first[1].content_hash != earlier[1].content_hash
        assert first[0] > earlier[0]
        assert first[1].labels["finding"] == "nodule"
        assert opened.thumbnail(first[1].image_id)
        assert not np.array_equal(opened.vector(first[1].image_id), np.zeros(1))
        same, moved = (which[merged[0].SOPInstanceUID] for which in (before, after))
        assert (same[0], same[1].image_id) == (moved[0], moved[1].image_id)
        assert moved[1].labels["finding"] == "cyst"
        assert moved[1].study_day != same[1].study_day
        names = {record.source.removeprefix("upload:") for _, record in after.values()}
    assert {path.name for path in (one.collection / "originals").iterdir()} == names
    network.run(*CBIR, "collection", "verify", "--collection", one.collection)
    network.run(*CBIR, "collection", "erase-patient", "MERGED", "--collection", one.collection, "--yes")
    assert b"MERGED" not in b"".join(path.read_bytes() for path in (one.collection / "originals").iterdir())


def test_without_pixels_studies_of_another_patient_alone_are_fetched(
    network: Namespace, tmp_path: Path
) -> None:
    merged, kept = study(11, 2, "OLD"), study(12, 2, "SAME")
    one = Compared(network, tmp_path)
    with orthanc(network, tmp_path / "orthanc"):
        send(network, tmp_path / "first", [*merged, *kept])
        one.run()
        remove(network, "1.2.826.11")
        for ds in merged:
            ds.PatientID = "NEW"
        send(network, tmp_path / "second", merged)
        assert one.compare("--no-pixels", "--apply") == {"another patient": 2, "equal": 2}
        assert one.would_erase("NEW") == 2
        assert one.compare("--since", "20210101") == {"left out by option": 4}


def test_an_instance_with_the_pixels_of_another_patients_image(network: Namespace, tmp_path: Path) -> None:
    first, second = study(21, 2, "P1"), list(slices(2, 32, "1.2.826.22", seed=21))
    for ds in second:
        ds.PatientID = "P300"
    one = Compared(network, tmp_path)
    with orthanc(network, tmp_path / "orthanc"):
        send(network, tmp_path / "first", first)
        one.run()
        send(network, tmp_path / "second", second)
        assert "the pixels of an image of another patient" in one.run()
        command = (*CBIR, "collection", "erase-patient", "P300", "--collection", one.collection)
        counts = json.loads(network.run(*command, "--dry-run", "--format", "json"))
        assert counts["would_erase"] == 0
        assert len(counts["with_the_same_pixels"]) == 2
        remove(network, "1.2.826.22")
        for ds in second:
            ds.PatientID = "P1"
        send(network, tmp_path / "third", second)
        assert one.compare("--apply") == {"another patient": 2, "equal": 2}
        counts = json.loads(network.run(*command, "--dry-run", "--format", "json"))
        assert counts == {"would_erase": 0}
        remove(network, "1.2.826.21")
        assert one.compare("--apply") == {"deleted from the archive": 2, "equal": 2}
        one.run()
    assert set(one.patients()) == {str(ds.SOPInstanceUID) for ds in second}


def test_the_wrong_archive_deletes_nothing(network: Namespace, tmp_path: Path) -> None:
    one = Compared(network, tmp_path)
    with orthanc(network, tmp_path / "orthanc"):
        send(network, tmp_path / "first", study(31, 2, "P"))
        one.run()
    with orthanc(network, tmp_path / "other"):
        send(network, tmp_path / "second", study(32, 2, "P"))
        assert "has nothing of what the collection got" in one.run("--compare", "--apply", code=2)
    assert len(one.patients()) == 2
