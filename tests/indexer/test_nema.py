"""The NEMA images in every compression by every way into a collection, with a report and a damaged image."""

import json
import os
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydicom import dcmread
from pydicom.uid import (
    JPEG2000,
    ExplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGExtended12Bit,
    JPEGLosslessSV1,
    JPEGLSLossless,
    JPEGLSNearLossless,
)

from cbir import settings
from cbir.images import read_images
from cbir.store import Collection
from indexer.index_request import open_collection
from service.app import create_app
from tests.indexer.commands import index
from tests.indexer.damaged import DAMAGED
from tests.indexer.dicomweb.test_orthanc import SCRIPT, STUDIES, put
from tests.indexer.orthanc import RECEIVER, Namespace, namespace, needs_orthanc, orthanc
from tests.indexer.receiving import CBIR, receiver
from tests.service.test_stow import FAILED, SENT, post

PROPOSES = {  # options of storescu
    ExplicitVRLittleEndian: "-xe",
    JPEGLosslessSV1: "-xs",
    JPEGBaseline8Bit: "-xy",
    JPEGExtended12Bit: "-xx",
    JPEG2000Lossless: "-xv",
    JPEG2000: "-xw",
    JPEGLSLossless: "-xt",
    JPEGLSNearLossless: "-xu",
}
needs_dcmtk = pytest.mark.skipif(
    not shutil.which("storescu"), reason="dcmtk is not installed (apt-get install dcmtk)"
)


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """All files: 36 images, of which 5 show the same picture as another; a report; one of 65535 rows and columns."""
    folder = Path(os.environ.get("CBIR_DATA", "")) / "dicom"
    if "CBIR_DATA" not in os.environ or not folder.is_dir():
        pytest.skip("CBIR_DATA does not name a folder with a folder dicom")
    copied = tmp_path_factory.mktemp("nema")
    for path in folder.iterdir():
        shutil.copyfile(path, copied / f"{path.name}.dcm")
    for name in ("report", "65535 rows and columns"):
        (copied / f"{name.split()[0]}.dcm").write_bytes(DAMAGED[name][0])
    found = sorted(copied.iterdir())
    assert len(found) == 38
    return found


@pytest.fixture(scope="module")
def pictures(sent: list[Path]) -> set[str]:
    """The content hashes that are to be in a collection, read from the files themselves."""
    hashes = {
        image.content_hash
        for path in sent
        if path.stem not in ("report", "65535")
        for image in read_images(path)
    }
    assert len(hashes) == 31
    return hashes


@pytest.fixture(scope="module")
def network() -> Iterator[Namespace]:
    with namespace() as made:
        yield made


def pictures_in(place: Path) -> set[str]:
    """The content hashes of a collection, each of which it has once."""
    with Collection(place) as collection:
        found = [record.content_hash for _, record in collection.iterate()]
    assert len(found) == len(set(found))
    return set(found)


@needs_dcmtk
def test_by_storescu(sent: list[Path], pictures: set[str], tmp_path: Path) -> None:
    by_syntax: dict[str, list[Path]] = defaultdict(list)
    for path in sent:
        by_syntax[dcmread(path, stop_before_pixels=True).file_meta.TransferSyntaxUID].append(path)
    with receiver(tmp_path / "collection") as started:
        said = ""
        for syntax, paths in by_syntax.items():
            command = [
                "storescu",
                "-v",
                "-nh",
                PROPOSES[syntax],
                "-aec",
                "CBIR",
                "127.0.0.1",
                str(started.port),
            ]
            done = subprocess.run(
                [*command, *paths], capture_output=True, text=True, timeout=400, check=False
            )
            said += done.stdout + done.stderr
        assert said.count("Received Store Response (Success)") == 36
        counts = json.loads(started.stop())
    assert counts == {"stored": 31, "there already": 5, "without an image": 1, "cannot be understood": 1}
    assert pictures_in(tmp_path / "collection") == pictures


def test_by_stow(
    sent: list[Path], pictures: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CBIR_DECODERS", "1")
    place = tmp_path / "collection"
    open_collection(place).close()
    client = create_app(place, settings.load()).test_client()
    answer = post(client, *(path.read_bytes() for path in sent))
    assert answer.status_code == 202
    assert len(answer.json[SENT]["Value"]) == 37
    assert [item["00081196"]["Value"] for item in answer.json[SENT]["Value"] if "00081196" in item] == [
        [0xB006]
    ]
    assert [item["00081197"]["Value"] for item in answer.json[FAILED]["Value"]] == [[0xC000]]
    assert pictures_in(place) == pictures


def test_from_a_folder(sent: list[Path], pictures: set[str], tmp_path: Path) -> None:
    summary = index(sent[0].parent, tmp_path / "collection", code=3)
    assert (summary["indexed"], summary["duplicates"], summary["refused"]) == (31, 5, 2)
    reasons = sorted(reason for _, reason in summary["examples"])
    assert "65535 x 65535 pixels" in reasons[0]
    assert "has no pixels: it is of class Basic Text SR Storage" in reasons[1]
    assert pictures_in(tmp_path / "collection") == pictures


@needs_orthanc
def test_through_orthanc_by_asking_and_by_being_sent(
    sent: list[Path], pictures: set[str], network: Namespace, tmp_path: Path
) -> None:
    asked, forwarded = tmp_path / "asked", tmp_path / "forwarded"
    lua = tmp_path / "forward.lua"
    lua.write_text(SCRIPT.read_text().partition("```lua\n")[2].partition("```")[0])
    settings = {
        "DicomModalities": {"cbir": ["CBIR", "127.0.0.1", RECEIVER]},
        "LuaScripts": [str(lua)],
        "DicomAet": "ORTHANC",
    }
    listening = network.start(
        *CBIR, "receive", "--collection", forwarded, "--port", str(RECEIVER), "--allow", "ORTHANC",
        "--jobs", "1",
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert listening.stdout
        assert "port" in listening.stdout.readline()
        with orthanc(network, tmp_path / "orthanc", **settings):
            put(network, sent)
            said = network.run(
                *CBIR,
                "index",
                "dicomweb",
                STUDIES,
                "--collection",
                asked,
                "--jobs",
                "1",
                "--format",
                "json",
                code=3,
            )
            counts = {name: number for name, number in json.loads(said.splitlines()[0]).items() if number}
            assert counts == {
                "stored": 31, "there already": 5, "without an image": 1, "cannot be understood": 1
            }  # fmt: skip
            assert pictures_in(asked) == pictures
            until = time.monotonic() + 90
            while pictures_in(forwarded) != pictures:
                assert time.monotonic() < until, "not all was forwarded"
                time.sleep(0.4)
        listening.terminate()
        printed, _ = listening.communicate(timeout=300)
        counts = json.loads(printed.splitlines()[-1])
        assert counts["stored"] == 31
    finally:
        listening.kill()
        listening.wait()
