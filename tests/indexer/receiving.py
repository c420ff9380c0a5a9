"""A receiver in a process of its own, phantoms as DICOM data sets, and a sender."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
from pydicom import Dataset, dcmread, dcmwrite
from pydicom.dataset import FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid
from pynetdicom import AE, StoragePresentationContexts
from pynetdicom.association import Association

from cbir.evaluation.datasets.phantoms.dicom_encoding import encode_dicom
from cbir.evaluation.datasets.phantoms.drawing import draw_phantom
from cbir.store import Collection

CBIR = [sys.executable, "-m", "cbir.api.main"]


def phantom(index: int, size: int = 64) -> Dataset:
    """Phantom number `index` as a data set with file meta information."""
    return dcmread(BytesIO(encode_dicom(draw_phantom(index, 0, size), index, 0)))


def slices(count: int, side: int, study: str = "", seed: int = 0) -> Iterator[Dataset]:
    """Slices of one CT series, 16 bits, every one different."""
    study = study or generate_uid(entropy_srcs=["study", str(seed)])
    noise = np.random.default_rng(seed).integers(0, 4096, (side, side), np.uint16)
    for number in range(count):
        ds = Dataset()
        ds.SOPClassUID, ds.SOPInstanceUID = CTImageStorage, f"{study[:50]}.{number + 1}"
        ds.StudyInstanceUID, ds.SeriesInstanceUID = study, f"{study[:50]}.0"
        ds.PatientID, ds.PatientName, ds.Modality = "secret-patient", "SECRET^NAME", "CT"
        ds.StudyDate, ds.BodyPartExamined = "20200301", "CHEST"
        ds.Rows = ds.Columns = side
        ds.SamplesPerPixel, ds.PhotometricInterpretation = 1, "MONOCHROME2"
        ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation = 16, 12, 11, 0
        ds.WindowCenter, ds.WindowWidth = 2048, 4096
        pixels = np.roll(noise, number % side, axis=0)
        pixels[0, : min(side, 8)] = number % 4096
        ds.PixelData = pixels.astype("<u2").tobytes()
        with_meta(ds)
        yield ds


def with_meta(ds: Dataset, syntax: str = ExplicitVRLittleEndian) -> Dataset:
    """The data set with file meta information that fits it."""
    ds.file_meta = FileMetaDataset()
    ds.file_meta.MediaStorageSOPClassUID, ds.file_meta.MediaStorageSOPInstanceUID = (
        ds.SOPClassUID,
        ds.SOPInstanceUID,
    )
    ds.file_meta.TransferSyntaxUID = syntax
    return ds


def file_of(ds: Dataset) -> bytes:
    """The bytes of a DICOM file."""
    file = BytesIO()
    dcmwrite(file, ds, enforce_file_format=True)
    return file.getvalue()


class Receiver:
    """The process; port: where it listens. printed: after it has ended."""

    def __init__(self, collection: Path, *options: str, environment: dict[str, str] | None = None) -> None:
        command = [*CBIR, "receive", "--collection", str(collection), "--port", "0", "--jobs", "1", *options]
        self.log = collection.parent / f"{collection.name}-receiver.log"
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"} | (environment or {}),
            )
        assert self.process.stdout
        found = re.search(r"port (\d+)", self.process.stdout.readline())
        assert found, self.log.read_text()
        self.port = int(found.group(1))

    def stop(self) -> str:
        """What it printed after SIGTERM; it must end in order."""
        self.process.send_signal(signal.SIGTERM)
        printed, _ = self.process.communicate(timeout=300)
        assert self.process.returncode == 0, self.log.read_text()
        assert "Traceback" not in self.log.read_text()
        return str(printed)

    def kill(self) -> None:
        """As `kill -9`."""
        self.process.kill()
        self.process.communicate(timeout=300)


@contextmanager
def receiver(collection: Path, *options: str) -> Iterator[Receiver]:
    """A receiver that is ended in any case."""
    started = Receiver(collection, *options)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.kill()


@contextmanager
def association(port: int, calling: str = "SENDER", called: str = "CBIR") -> Iterator[Association]:
    """An association that has been accepted, for storage in the transfer syntax of most files."""
    entity = AE(calling)
    entity.dimse_timeout = entity.acse_timeout = 120  # tests run on busy machines
    entity.requested_contexts = StoragePresentationContexts[:120]
    for context in entity.requested_contexts:
        context.transfer_syntax = [ExplicitVRLittleEndian]
    made = entity.associate("127.0.0.1", port, ae_title=called)
    assert made.is_established
    try:
        yield made
    finally:
        if made.is_established:
            made.release()


def send(port: int, datasets: Sequence[Dataset]) -> list[int]:
    """The statuses that the objects were answered with."""
    with association(port) as made:
        return [made.send_c_store(ds).Status for ds in datasets]


def instances_in(collection: Path) -> list[str]:
    """The SOP Instance UIDs of all images, in the order they came."""
    with Collection(collection) as opened:
        return [record.instance for _, record in opened.iterate()]
