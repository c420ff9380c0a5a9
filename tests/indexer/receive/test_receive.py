"""The receiver as its peers see it, with dcmtk and pynetdicom on the other side."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pydicom import Dataset, dcmread
from pydicom.encaps import encapsulate
from pydicom.uid import (
    JPEG2000,
    BasicTextSRStorage,
    JPEGBaseline8Bit,
    JPEGLossless,
    JPEGLosslessSV1,
    JPEGLSLossless,
    RLELossless,
    SecondaryCaptureImageStorage,
)
from pynetdicom import AE, build_context
from pynetdicom.sop_class import CTImageStorage

from cbir.errors import InvalidInput
from cbir.evaluation.datasets.phantoms import write_phantoms
from cbir.images import Limits
from cbir.ingest.description import DescribeTask
from cbir.store import Collection
from cbir.store.base import profile as profiles
from indexer.describe_instance import InstanceFilter, InstanceTask, describe_instance
from indexer.receive.receive_command import receive
from indexer.receive.storage_service import decodable_syntaxes
from tests.indexer.receive.listening import associate
from tests.indexer.receiving import (
    Receiver,
    association,
    file_of,
    instances_in,
    phantom,
    receiver,
    send,
    slices,
    with_meta,
)

needs_dcmtk = pytest.mark.skipif(
    not shutil.which("storescu"), reason="dcmtk is not installed (apt-get install dcmtk)"
)


OPTIONS = "--study-dates", "shift", "--no-secondary-captures", "--no-burned-in", "--most-megabytes", "1"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Receiver, Path]]:
    """A receiver with options for the tests that do not end it, and the folder of its collection."""
    place = tmp_path_factory.mktemp("receive") / "collection"
    with receiver(place, *OPTIONS) as started:
        yield started, place
        started.stop()


@needs_dcmtk
def test_dcmtk_sends_a_folder_twice_and_nothing_is_there_twice(tmp_path: Path) -> None:
    write_phantoms(tmp_path / "phantoms", 12, format="dicom", size=64)
    files = sorted(map(str, (tmp_path / "phantoms").glob("*.dcm")))
    compressed = [name for name in files if dcmread(name).file_meta.TransferSyntaxUID.is_compressed]
    plain = [name for name in files if name not in compressed]
    assert compressed
    with receiver(tmp_path / "collection") as started:
        peer = ["-aec", "CBIR", "127.0.0.1", str(started.port)]
        assert subprocess.run(["echoscu", *peer], timeout=400, check=False).returncode == 0
        for _ in range(2):
            for options, chosen in (([], plain), (["-xr"], compressed)):
                done = subprocess.run(
                    ["storescu", "-v", *options, *peer, *chosen],
                    capture_output=True,
                    text=True,
                    timeout=120,
                    check=False,
                )
                assert done.returncode == 0, done.stderr
                said = done.stdout + done.stderr
                assert said.count("Received Store Response (Success)") == len(chosen)
        assert json.loads(started.stop()) == {"stored": 12, "there already": 12}
    found = instances_in(tmp_path / "collection")
    assert sorted(found) == sorted(str(dcmread(name).SOPInstanceUID) for name in files)


@pytest.mark.slow
def test_what_is_there_is_answered_without_being_described(tmp_path: Path) -> None:
    wanted = list(slices(6, 48))
    with receiver(tmp_path / "collection") as started:
        assert send(started.port, wanted) == [0] * 6
        number = started.process.pid
        describing = Path(f"/proc/{number}/task/{number}/children").read_text().split()
        assert describing
        for child in describing:
            os.kill(int(child), signal.SIGSTOP)  # nobody can describe anything now
        try:
            assert send(started.port, wanted) == [0] * 6
        finally:
            for child in describing:
                os.kill(int(child), signal.SIGCONT)
        assert json.loads(started.stop()) == {"stored": 6, "there already": 6}
    assert sorted(instances_in(tmp_path / "collection")) == sorted(str(ds.SOPInstanceUID) for ds in wanted)


@pytest.mark.slow
def test_other_pixels_under_a_known_uid_are_answered_with_a_warning(tmp_path: Path) -> None:
    sent, others = list(slices(2, 48)), list(slices(2, 48))
    others[0].PixelData = (others[0].pixel_array.max() - others[0].pixel_array).tobytes()
    others[1].SeriesDescription = "the same pixels, another header"
    with receiver(tmp_path / "collection") as started:
        assert send(started.port, sent) == [0, 0]
        assert send(started.port, others) == [0xB006, 0]
        counts = json.loads(started.stop())
    assert counts == {"stored": 2, "there already": 1, "not stored: there already with another picture": 1}
    assert sorted(instances_in(tmp_path / "collection")) == sorted(str(ds.SOPInstanceUID) for ds in sent)


@pytest.mark.slow
def test_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CBIR_STORE_THUMBNAILS", "false")
    monkeypatch.setenv("CBIR_BURNED_IN", "refuse")
    place = tmp_path / "collection"
    (written,) = slices(1, 32)
    written.BurnedInAnnotation = "YES"
    sent = [*slices(3, 48, seed=1), written]
    for options, status, counts in (
        ((), 0xB006, {"stored": 3, "left out by option": 1}),
        (("--burned-in",), 0, {"stored": 1, "there already": 3}),
    ):
        with receiver(place, *options) as started:
            assert send(started.port, sent) == [0, 0, 0, status]
            assert json.loads(started.stop()) == counts
    with Collection(place) as collection:
        records = [record for _, record in collection.iterate()]
        assert len(records) == 4
        assert not any(collection.thumbnail(record.image_id) for record in records)


def test_labels_thumbnail_and_nothing_that_identifies(running: tuple[Receiver, Path]) -> None:
    started, place = running
    sent = list(slices(3, 48, seed=2))
    uids = {str(ds.SOPInstanceUID) for ds in sent}
    for ds in sent:
        ds.PatientID = "another-patient"
    assert send(started.port, sent) == [0, 0, 0]
    log = started.log.read_text()
    with Collection(place) as collection:
        records = [record for _, record in collection.iterate() if record.instance in uids]
        assert all(collection.thumbnail(record.image_id) for record in records)
    days = {record.labels.pop("study_date") for record in records}
    assert len(days) == 1
    assert "20150101" < days.pop() < "20200301"
    assert records[0].labels == {"modality": "CT", "body_part": "CHEST", "photometric": "MONOCHROME2"}
    assert len({record.patient_key for record in records}) == 1
    kept = b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file()) + log.encode()
    for secret in (b"another-patient", b"secret-patient", b"SECRET^NAME", b"20200301"):
        assert secret not in kept
    with Collection(place) as collection, collection.writer() as writer:
        assert writer.erase_patient([str(records[0].patient_key)]) == 3
    assert not uids & set(instances_in(place))


def test_what_is_not_stored_is_answered_with_a_status_that_fits(running: tuple[Receiver, Path]) -> None:
    started, place = running
    report = phantom(0)
    for keyword in ("PixelData", "Rows", "Columns"):
        del report[keyword]
    report.SOPClassUID, report.SOPInstanceUID = BasicTextSRStorage, "1.2.3.4"
    short = phantom(1)
    short.PixelData = short.PixelData[:100]
    bomb = phantom(2)
    bomb.Rows = bomb.Columns = 65535
    capture = phantom(5)
    capture.SOPClassUID = SecondaryCaptureImageStorage
    private = phantom(6)
    private.add_new(0x00091001, "OB", b"\xff" * 999)
    private.BurnedInAnnotation = "NO"
    (written,) = slices(1, 32, seed=3)
    written.BurnedInAnnotation = "YES"
    sent = [report, short, bomb, capture, private, written]
    for ds in sent:
        with_meta(ds)
    assert send(started.port, sent) == [0xB006, 0xC000, 0xC000, 0xB006, 0, 0xB006]
    counts = "1 without an image, 2 cannot be understood, 2 left out by option, 1 stored"
    ends = time.monotonic() + 60
    while counts not in (log := started.log.read_text()):
        assert time.monotonic() < ends, log
        time.sleep(0.02)
    assert {str(ds.SOPInstanceUID) for ds in sent} & set(instances_in(place)) == {private.SOPInstanceUID}


def test_a_wrong_transfer_syntax_is_refused(running: tuple[Receiver, Path]) -> None:
    started, place = running
    plain = phantom(0)
    entity = AE("SENDER")
    entity.add_requested_context(plain.SOPClassUID, [JPEGBaseline8Bit])
    made = entity.associate("127.0.0.1", started.port, ae_title="CBIR")
    plain.file_meta.TransferSyntaxUID = JPEGBaseline8Bit  # and is not
    plain["PixelData"].is_undefined_length = True
    plain.PixelData = encapsulate([plain.PixelData])
    assert made.send_c_store(plain).Status == 0xC000
    made.release()
    assert str(plain.SOPInstanceUID) not in instances_in(place)


def test_who_may_send(tmp_path: Path) -> None:
    with receiver(tmp_path / "collection", "--allow", "SCANNER", "--associations", "2") as started:
        assert associate(started.port, "OTHER").is_rejected
        assert associate(started.port, "SCANNER", "ELSE").is_rejected
        held = [associate(started.port, "SCANNER") for _ in range(2)]
        assert all(one.is_established for one in held)
        assert held[0].send_c_echo().Status == 0
        assert associate(started.port, "SCANNER").is_rejected
        held[0].release()
        deadline = time.monotonic() + 60
        again = associate(started.port, "SCANNER")
        while not again.is_established and time.monotonic() < deadline:
            again = associate(started.port, "SCANNER")
        assert again.is_established
        started.stop()  # though two associations are open


def test_other_machines_only_with_names(tmp_path: Path) -> None:
    place = tmp_path / "none"
    for options, said in (
        ({"host": "0.0.0.0"}, "--allow"),
        ({"host": "nowhere"}, "is not an address"),
        ({"aet": "A" * 17}, "is not an AE title"),
        ({"frames": "every:0"}, "every:10"),
        ({"study_dates": "keep"}, "drop or shift"),
    ):
        with pytest.raises(InvalidInput, match=said):
            receive(place, **options)
        assert not place.exists()


def test_too_much_ends_the_association_and_no_more(running: tuple[Receiver, Path]) -> None:
    started, _ = running
    (large,) = slices(1, 1100, seed=4)
    with association(started.port) as made:
        assert "Status" not in made.send_c_store(large)
    with socket.create_connection(("127.0.0.1", started.port)) as raw:
        raw.sendall(b"\x01\0\xff\xff\xff\xff" + bytes(5000))  # a PDU of four gigabytes
        raw.settimeout(60)
        try:
            while raw.recv(1000):
                pass
        except ConnectionResetError:
            pass
    assert send(started.port, list(slices(1, 32, seed=4))) == [0]


def test_frames_are_chosen() -> None:
    describe = DescribeTask(profiles.get("huang2012"), b"secret", Limits())
    (several,) = slices(1, 32)
    several.NumberOfFrames = 10
    several.PixelData = np.random.default_rng(1).integers(0, 4096, (10, 32, 32), np.uint16).tobytes()
    for frames, expected in (("all", [*range(1, 11)]), ("middle", [5]), ("every:4", [1, 5, 9])):
        task = InstanceTask(describe, InstanceFilter(frames=frames))
        assert [record.frame for record in describe_instance(file_of(several), task).file.records] == expected


def test_every_transfer_syntax_that_is_decoded_is_negotiated(running: tuple[Receiver, Path]) -> None:
    started, _ = running
    for syntax in decodable_syntaxes():
        entity = AE("SENDER")
        entity.requested_contexts = [build_context(CTImageStorage, syntax)]
        made = entity.associate("127.0.0.1", started.port, ae_title="CBIR")
        assert [context.transfer_syntax for context in made.accepted_contexts] == [[syntax]]
        made.release()
    assert {JPEGLossless, JPEGLosslessSV1, JPEGLSLossless, JPEG2000, RLELossless} < set(decodable_syntaxes())


def test_a_deleted_image_is_not_taken_in_again(running: tuple[Receiver, Path]) -> None:
    started, place = running
    (one,) = slices(1, 32, seed=7)
    assert send(started.port, [one]) == [0]
    with Collection(place) as collection:
        image_ids = [
            record.image_id for _, record in collection.iterate() if record.instance == one.SOPInstanceUID
        ]
        with collection.writer() as writer:  # beside the receiver, which holds the lock only to commit
            writer.delete(image_ids)
    assert send(started.port, [one]) == [0xB006]
    assert str(one.SOPInstanceUID) not in instances_in(place)


def test_an_image_without_pixels_is_damaged(running: tuple[Receiver, Path]) -> None:
    empty = Dataset()
    empty.SOPClassUID, empty.SOPInstanceUID = CTImageStorage, "1.2.3"
    assert send(running[0].port, [with_meta(empty)]) == [0xC000]
