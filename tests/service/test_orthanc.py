"""The service beside a real Orthanc: links that lead there, pictures that come from there."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydicom import dcmread

from cbir.evaluation.datasets.phantoms import write_phantoms
from cbir.store import Collection
from tests.cbir.validation import check
from tests.indexer.orthanc import DICOM, URL, Namespace, namespace, needs_orthanc, orthanc
from tests.indexer.receiving import CBIR, file_of, slices
from tests.service.conftest import cbir

pytestmark = needs_orthanc

ARCHIVE = f"{URL}/dicom-web"
CLIENT = """
import json, sys, urllib.request
from pathlib import Path
import cv2, numpy
from service.client import Client, ServiceError

def size(data):
    return cv2.imdecode(numpy.frombuffer(data, numpy.uint8), cv2.IMREAD_UNCHANGED).shape[:2]

with Client(sys.argv[1]) as client:
    if sys.argv[2:]:
        client.store_instances([Path(name) for name in sys.argv[2:]])
    told = []
    for image in client.images():
        one = {"image": image.image_id, "rendered": image.links.rendered}
        try:
            one["thumbnail"] = size(client.thumbnail(image.image_id))
            one["picture"] = size(client.picture(image.image_id))
        except ServiceError as error:
            one["problem"] = error.problem.status
        told.append(one)
    print(json.dumps(told))
"""
FETCH = (
    "import sys, urllib.request as u\n"
    "asked = u.Request(sys.argv[1], headers={'Accept': 'image/jpeg'})\n"
    "print(u.urlopen(asked, timeout=20).read()[:2].hex())"
)


@pytest.fixture(scope="module")
def network() -> Iterator[Namespace]:
    with namespace() as dicom_collection:
        yield dicom_collection


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three radiographs larger than thumbnails, and two small CT slices."""
    folder = tmp_path_factory.mktemp("files")
    write_phantoms(folder, 3, format="dicom", size=600)
    for number, entry in enumerate(slices(2, 48)):
        (folder / f"slice-{number}.dcm").write_bytes(file_of(entry))
    return sorted(folder.glob("*.dcm"))


@pytest.fixture(scope="module")
def archive(
    network: Namespace, files: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator["subprocess.Popen[str]"]:
    """An Orthanc with the files."""
    with orthanc(network, tmp_path_factory.mktemp("orthanc")) as running:
        network.run("storescu", "-aec", "ORTHANC", "127.0.0.1", str(DICOM), *files)
        yield running


@pytest.mark.usefixtures("archive")
def test_a_report_is_stored_and_read_back(network: Namespace, files: list[Path], tmp_path: Path) -> None:
    handle = tmp_path / "collection"
    cbir("index", files[0].parent, "--collection", handle, "--jobs", "1")
    with Collection(handle) as collection:
        query = next(entry for _, entry in collection.iterate() if entry.labels.get("modality") == "CT")
    before = network.get("/studies")
    requested = (
        *CBIR,
        "search",
        "--report",
        f"id:{query.image_id}",
        "--collection",
        handle,
        "--exclude",
        "instance",
    )
    reported = network.run(*requested, "--store", "--archive", ARCHIVE, "--out", tmp_path / "report.dcm")
    assert f"stored in {ARCHIVE}: 4 results" in reported
    assert sorted(network.get("/studies")) == sorted(before)  # in the study and of the patient of the query
    (series,) = [
        entry for entry in network.get("/series?expand") if entry["MainDicomTags"]["Modality"] == "SR"
    ]
    (instance,) = series["Instances"]
    back = tmp_path / "back.dcm"
    script = "import sys, urllib.request as u; u.urlretrieve(sys.argv[1], sys.argv[2])"
    network.run(sys.executable, "-c", script, f"{URL}/instances/{instance}/file", back)
    check(back)
    stored, written = dcmread(back), dcmread(tmp_path / "report.dcm")
    assert stored.to_json_dict() == written.to_json_dict()
    assert stored.StudyInstanceUID == query.study
    assert stored.PatientID == dcmread(files[-1]).PatientID
    assert {
        item.ReferencedSOPSequence[0].ReferencedSOPInstanceUID
        for group in stored.ContentSequence[-1].ContentSequence
        for item in group.ContentSequence
        if item.ValueType == "IMAGE"
    } == {str(dcmread(file).SOPInstanceUID) for file in files} - {query.instance}


def test_pictures_that_are_not_kept_come_from_the_archive(
    network: Namespace, archive: "subprocess.Popen[str]", files: list[Path], tmp_path: Path
) -> None:
    handle = tmp_path / "collection"
    some = tmp_path / "some"
    write_phantoms(some, 1, size=64)
    cbir("index", some, "--collection", handle, "--jobs", "1")
    environment = {
        "CBIR_ARCHIVE_URL": ARCHIVE,
        "CBIR_STORE_THUMBNAILS": "false",
        "CBIR_KEEP_ORIGINALS": "false",
    }
    env = ["env", *(f"{name}={value}" for name, value in environment.items())]
    served = network.start(
        *env, *CBIR, "serve", "--collection", handle, "--port", "0",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert served.stdout
        address = served.stdout.readline().split()[-1].rstrip("/")
        reported = json.loads(network.run(sys.executable, "-c", CLIENT, address, *files))
        sent = [entry for entry in reported if entry["rendered"]]
        assert len(sent) == len(files)
        assert all("problem" not in entry for entry in reported)
        assert [entry["thumbnail"] for entry in sent] == [[256, 256]] * 3 + [[48, 48]] * 2
        assert [entry["picture"] for entry in sent] == [[600, 600]] * 3 + [[48, 48]] * 2
        for entry in sent[::2]:
            assert network.run(sys.executable, "-c", FETCH, entry["rendered"]).strip() == "ffd8"
        archive.kill()
        archive.wait()
        missing = json.loads(network.run(sys.executable, "-c", CLIENT, address))
        assert all(entry["thumbnail"] for entry in missing)  # remembered
        assert [entry["image"] for entry in missing if entry.get("problem") == 410] == [
            entry["image"] for entry in sent
        ]
    finally:
        served.kill()
        served.communicate()
    with Collection(handle) as collection:
        assert {collection.thumbnail(record.image_id) for _, record in collection.iterate()} == {None}
