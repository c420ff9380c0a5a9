"""With a real Orthanc: fetched from, followed, forwarding."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydicom import dcmread

from cbir.evaluation.datasets.phantoms import write_phantoms
from cbir.store import Collection
from tests.indexer.orthanc import DICOM, RECEIVER, URL, Namespace, namespace, needs_orthanc, orthanc
from tests.indexer.receiving import CBIR, file_of, instances_in, slices

pytestmark = needs_orthanc

STUDIES = f"{URL}/dicom-web"
SCRIPT = Path(__file__).parents[3] / "docs" / "orthanc.md"


@pytest.fixture(scope="module")
def phantoms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("phantoms")
    write_phantoms(folder, 12, format="dicom", size=64)
    return folder


@pytest.fixture(scope="module")
def network() -> Iterator[Namespace]:
    with namespace() as made:
        yield made


def put(network: Namespace, files: list[Path]) -> None:
    """Send files into Orthanc over its own address."""
    script = (
        "import sys,urllib.request as u\n"
        "for name in sys.argv[2:]: u.urlopen(sys.argv[1]+'/instances', open(name,'rb').read(), timeout=60).read()"
    )
    network.run(sys.executable, "-c", script, URL, *files)


def commitment(network: Namespace, references: list[list[str]]) -> tuple[str, int, int]:
    """What Orthanc is told of instances that it asks for: its summary, and how many are stored and not."""
    script = (
        "import sys,urllib.request as u\n"
        "print(u.urlopen(sys.argv[1], sys.argv[2].encode(), timeout=60).read().decode())"
    )
    asked = json.dumps({"DicomInstances": references})
    ask = f"{URL}/modalities/cbir/storage-commitment"
    path = json.loads(network.run(sys.executable, "-c", script, ask, asked))["Path"]
    until(lambda: network.get(path)["Status"] != "Pending")
    report = network.get(path)
    return report["Status"], len(report["Success"]), len(report["Failures"])


def until(true: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.25)


def count(collection: Path) -> int:
    return len(instances_in(collection)) if Collection.exists(collection) else 0


def test_an_archive_is_fetched_filtered_followed_and_may_go_away(
    network: Namespace, phantoms: Path, tmp_path: Path
) -> None:
    files = sorted(phantoms.glob("*.dcm"))
    place = tmp_path / "collection"
    index = (*CBIR, "index", "dicomweb", "--jobs", "1")
    modality = str(dcmread(files[0]).Modality)
    with orthanc(network, tmp_path / "orthanc") as archive:
        put(network, files)
        wrong = network.run(*index, URL, "--collection", place, code=2)
        assert "is not a DICOMweb service" in wrong
        assert not place.exists()
        some = json.loads(
            network.run(*index, STUDIES, "--collection", place, "--modality", modality, "--format", "json")
        )
        assert 0 < some["stored"] < 12
        rest = json.loads(network.run(*index, STUDIES, "--collection", place, "--format", "json"))
        assert rest == {"stored": 12 - some["stored"], "there already": some["stored"]}
        assert len(set(instances_in(place))) == 12
        watching = network.start(
            *index, STUDIES, "--collection", place, "--watch", "--every", "0.3", "--changes", URL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            assert watching.stdout
            assert "watching\n" in watching.stdout  # reads up to that line; progress may come before
            (tmp_path / "new").mkdir()
            for number, one in enumerate(slices(5, 32)):
                (tmp_path / "new" / f"{number}.dcm").write_bytes(file_of(one))
            put(network, sorted((tmp_path / "new").iterdir()))
            until(lambda: count(place) == 17)
            archive.kill()
            assert any("trying again" in line for line in watching.stdout)
            watching.terminate()
            watching.communicate(timeout=300)
            assert watching.returncode == 0
        finally:
            watching.kill()
    assert count(place) == 17


def test_a_new_database_of_orthanc_is_followed_from_its_beginning(
    network: Namespace, phantoms: Path, tmp_path: Path
) -> None:
    place = tmp_path / "collection"
    watch = ("--watch", "--every", "0.3", "--changes", URL, "--jobs", "1")
    with orthanc(network, tmp_path / "orthanc"):
        put(network, sorted(phantoms.glob("*.dcm")))
        watching = network.start(
            *CBIR, "index", "dicomweb", STUDIES, "--collection", place, *watch,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert watching.stdout
        assert "watching\n" in watching.stdout
    try:
        with orthanc(network, tmp_path / "emptied"):  # numbers its changes from 1 again
            (tmp_path / "new").mkdir()
            for number, each in enumerate(slices(3, 32)):
                (tmp_path / "new" / f"{number}.dcm").write_bytes(file_of(each))
            put(network, sorted((tmp_path / "new").iterdir()))
            until(lambda: count(place) == 15)
    finally:
        watching.kill()
        watching.communicate()


def test_stable_studies_are_forwarded(network: Namespace, phantoms: Path, tmp_path: Path) -> None:
    place = tmp_path / "collection"
    text = SCRIPT.read_text()
    lua = tmp_path / "forward.lua"
    lua.write_text(text.partition("```lua\n")[2].partition("```")[0])
    receiver = network.start(
        *CBIR, "receive", "--collection", place, "--port", str(RECEIVER), "--peer", "ORTHANC@127.0.0.1",
        "--commitment", f"ORTHANC=127.0.0.1:{DICOM}", "--jobs", "1",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert receiver.stdout
        assert "port" in receiver.stdout.readline()
        modalities = {"cbir": ["CBIR", "127.0.0.1", RECEIVER]}
        settings = {"DicomModalities": modalities, "LuaScripts": [str(lua)], "DicomAet": "ORTHANC"}
        with orthanc(network, tmp_path / "orthanc", **settings):
            plain = sorted(phantoms.glob("*.dcm"))
            network.run("storescu", "-aec", "ORTHANC", "127.0.0.1", str(DICOM), *plain[:3])
            put(network, plain)
            until(lambda: count(place) == 12)
            stored = [dcmread(path) for path in plain]
            references = [[str(ds.SOPClassUID), str(ds.SOPInstanceUID)] for ds in stored]
            assert commitment(network, references) == ("Success", 12, 0)
            missing = [*references[:2], [references[0][0], "1.2.3"]]
            assert commitment(network, missing) == ("Failure", 2, 1)
        receiver.terminate()
        printed, _ = receiver.communicate(timeout=300)
        assert json.loads(printed.splitlines()[-1])["stored"] == 12
    finally:
        receiver.kill()
