"""A real Orthanc that fails in part: what is whole arrives, and the rest is named."""

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydicom import Dataset

from tests.indexer.dicomweb import archive_proxy
from tests.indexer.dicomweb.test_orthanc import count, put, until
from tests.indexer.orthanc import URL, Namespace, namespace, needs_orthanc, start_orthanc
from tests.indexer.receiving import CBIR, file_of, instances_in, slices

pytestmark = needs_orthanc

PORT = 8043
PROXY = f"http://127.0.0.1:{PORT}"
STUDIES = f"{PROXY}/dicom-web"
NO_CACHE = {"MaximumStorageCacheSize": 0}


@pytest.fixture(scope="module")
def network() -> Iterator[Namespace]:
    with namespace() as made:
        yield made


class Archive:
    """An Orthanc behind a proxy, both in `network`."""

    def __init__(self, network: Namespace, folder: Path) -> None:
        self.network, self.folder = network, folder
        self.rules: Path = folder / "rules.json"
        self.answer()
        self.process = start_orthanc(network, folder / "orthanc", **NO_CACHE)
        self.proxy = network.start(
            sys.executable, archive_proxy.__file__, PORT, URL, self.rules, stdout=subprocess.DEVNULL
        )  # fmt: skip

    def answer(self, **statuses: int) -> None:
        """Answer paths that match with statuses, from now on."""
        changed = self.rules.with_suffix(".new")
        changed.write_text(json.dumps({path.replace("__", "/"): code for path, code in statuses.items()}))
        changed.replace(self.rules)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        self.process = start_orthanc(self.network, self.folder / "orthanc", **NO_CACHE)

    def send(self, instances: list[Dataset]) -> None:
        folder = self.folder / "sent"
        folder.mkdir(exist_ok=True)
        paths = [folder / f"{one.SOPInstanceUID}.dcm" for one in instances]
        for path, one in zip(paths, instances, strict=True):
            path.write_bytes(file_of(one))
        put(self.network, paths)

    def file_of(self, instance: str) -> Path:
        """The file of an instance in the storage."""
        for found in self.network.get("/instances?expand"):
            if found["MainDicomTags"]["SOPInstanceUID"] == instance:
                name = self.network.get(f"/instances/{found['ID']}/attachments/dicom/info")["Uuid"]
                return next((self.folder / "orthanc" / "storage").rglob(name))
        raise AssertionError(instance)

    def first_of_study(self, study: str) -> str:
        """The instance whose file Orthanc reads when it lists the study."""
        for found in self.network.get("/studies?expand"):
            if found["MainDicomTags"]["StudyInstanceUID"] == study:
                return str(
                    self.network.get(f"/studies/{found['ID']}/instances")[0]["MainDicomTags"][
                        "SOPInstanceUID"
                    ]
                )
        raise AssertionError(study)


@contextmanager
def archive_in(network: Namespace, folder: Path) -> Iterator[Archive]:
    made = Archive(network, folder)
    try:
        yield made
    finally:
        made.stop()
        made.proxy.kill()
        made.proxy.wait()


def study(number: int, count: int) -> list[Dataset]:
    return list(slices(count, 32, f"1.2.826.{number}", seed=number))


def uids(*studies: list[Dataset]) -> set[str]:
    return {str(one.SOPInstanceUID) for instances in studies for one in instances}


def test_lost_files_a_deleted_study_and_a_restart_stop_nothing(network: Namespace, tmp_path: Path) -> None:
    inner, first, deleted, large = study(1, 5), study(2, 3), study(3, 2), study(4, 60)
    place, report = tmp_path / "collection", tmp_path / "report.csv"
    with archive_in(network, tmp_path) as archive:
        archive.send([*inner, *first, *deleted, *large])
        lost = {str(inner[2].SOPInstanceUID), archive.first_of_study("1.2.826.2")}
        for uid in lost:
            archive.file_of(uid).rename(tmp_path / uid)
        archive.answer(**{"__studies__1.2.826.3__": 404})
        crawling = network.start(
            *CBIR, "index", "dicomweb", STUDIES, "--collection", place, "--jobs", "1", "--report", report,
            "--format", "json", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            until(lambda: count(place) >= 3)
            archive.stop()
            archive.start()
        finally:
            printed, errors = crawling.communicate(timeout=300)
    assert crawling.returncode == 3, errors
    assert "Traceback" not in errors
    assert set(instances_in(place)) == uids(inner, first, large) - lost
    assert json.loads(printed) == {
        "gone from the archive": 1,
        "not delivered by the archive": 2,
        "stored": 66,
    }
    rows = list(csv.DictReader(report.read_text().splitlines()))
    refused = {row["instance"]: row for row in rows if row["instance"]}
    assert set(refused) == lost
    for row in refused.values():
        assert row["series"] == row["study"] + ".0"
        assert row["reason"] == "the archive answered 500"
        assert f"instance {row['instance']} of series {row['series']} of study {row['study']}" in errors
    gone = [row for row in rows if not row["instance"]]
    assert [row["study"] for row in gone] == ["1.2.826.3"]
    assert "gone" in gone[0]["reason"]
    assert "cbir: study 1.2.826.3: gone" in errors
    assert "the archive does not answer: it answered 502" in errors
    assert "the archive answers again" in errors
    assert "secret-patient" not in errors + report.read_text()


def test_a_watch_goes_on_past_an_instance_that_fails_until_it_is_repaired(
    network: Namespace, tmp_path: Path
) -> None:
    failing, later, old = study(11, 4), study(12, 3), study(13, 2)
    for one in old:
        one.StudyDate = "20100101"
    place = tmp_path / "collection"
    with archive_in(network, tmp_path) as archive:
        uid = str(failing[2].SOPInstanceUID)
        archive.answer(**{f"__instances__{uid}$": 500})
        watching = network.start(
            *CBIR, "index", "dicomweb", STUDIES, "--collection", place, "--jobs", "1", "--watch", "--every", "0.5",
            "--since", "20200101", "--changes", PROXY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            assert watching.stdout
            assert any("watching" in line for line in watching.stdout)
            archive.send(failing)
            until(lambda: count(place) == 3)
            archive.send(old)
            archive.send(later)
            until(lambda: count(place) == 6)
            archive.stop()
            archive.start()
            archive.answer()
            until(lambda: count(place) == 7)
            watching.terminate()
            printed, _ = watching.communicate(timeout=300)
        finally:
            watching.kill()
            watching.communicate()
    assert watching.returncode == 0, printed
    assert set(instances_in(place)) == uids(failing, later)
    assert printed.count(f"instance {uid} of series 1.2.826.11.0 of study 1.2.826.11") == 1
    assert "name Orthanc's own address" not in printed
    assert "not delivered" not in printed.splitlines()[-1]


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("path", ["__studies__1.2.826.21__series", "__instances__1.2"])
def test_refused_credentials_end_with_one_line(
    status: int, path: str, network: Namespace, tmp_path: Path
) -> None:
    place = tmp_path / "collection"
    with archive_in(network, tmp_path) as archive:
        archive.send(study(21, 2))
        archive.answer(**{path: status})
        command = (*CBIR, "index", "dicomweb", STUDIES, "--collection", place, "--jobs", "1", "--watch")
        printed = network.run(*command, code=2)
    assert f"answered {status}: credentials are needed" in printed
    assert "Traceback" not in printed
    assert count(place) == 0
