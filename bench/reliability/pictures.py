"""Small images that no other number gives, as PNG and DICOM, and a collection of some."""

import csv
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from pydicom import Dataset
from pydicom.dataset import FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

from cbir.images import decode

SIDE = 48
PATIENTS = 6
STUDY = "1.2.826.0.1.3680043.10.99"


def noise(number: int) -> NDArray[np.uint8]:
    """Return the pixels of image `number`, (SIDE, SIDE)."""
    pixels = np.random.default_rng(number).integers(0, 256, (SIDE, SIDE), np.uint8)
    return np.asarray(cv2.GaussianBlur(pixels, (3, 3), 0), np.uint8)


def png(number: int) -> bytes:
    """Return image `number` as a PNG file."""
    return bytes(cv2.imencode(".png", noise(number))[1])


def instance(number: int) -> Dataset:
    """Return image `number` as a DICOM data set with file meta information."""
    ds = Dataset()
    ds.SOPClassUID, ds.SOPInstanceUID = CTImageStorage, f"{STUDY}.{number}"
    ds.StudyInstanceUID, ds.SeriesInstanceUID = STUDY, f"{STUDY}.0"
    ds.PatientID, ds.Modality, ds.Rows, ds.Columns = f"patient-{number % PATIENTS}", "CT", SIDE, SIDE
    ds.SamplesPerPixel, ds.PhotometricInterpretation = 1, "MONOCHROME2"
    ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation = 8, 8, 7, 0
    ds.PixelData = noise(number).tobytes()
    ds.file_meta = FileMetaDataset()
    ds.file_meta.MediaStorageSOPClassUID = CTImageStorage
    ds.file_meta.MediaStorageSOPInstanceUID = ds.SOPInstanceUID
    ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    return ds


def dicom(number: int) -> bytes:
    """Return image `number` as a DICOM file."""
    file = BytesIO()
    instance(number).save_as(file, enforce_file_format=True)
    return file.getvalue()


@cache
def png_id(number: int) -> str:
    """Return the id that a collection gives the PNG file of image `number`."""
    return image_id(png(number))


def image_id(data: bytes) -> str:
    """Return the id that a collection gives the image in a file."""
    return next(iter(decode(data, "image"))).content_hash


class PictureFolder:
    """A folder of PNG files, and a manifest with the patient and the label of each.

    numbers: of the image by file name. values: label by file name.
    """

    def __init__(self, folder: Path, count: int, numbers: Iterator[int]) -> None:
        self.folder = folder
        self.manifest = folder.with_name(f"{folder.name}.csv")
        self._numbers = numbers
        folder.mkdir(parents=True)
        self.numbers = {f"{position:04}.png": 0 for position in range(count)}
        self.values = dict.fromkeys(self.numbers, "first")
        for name in self.numbers:
            self.redraw(name)
        self.write_manifest()

    def redraw(self, name: str) -> None:
        """Write another image into a file."""
        self.numbers[name] = next(self._numbers)
        (self.folder / name).write_bytes(png(self.numbers[name]))

    def patient(self, name: str) -> str:
        """Return the patient of a file."""
        return f"patient-{int(Path(name).stem) % PATIENTS}"

    def write_manifest(self) -> None:
        """Write `values` and the patients as csv."""
        with self.manifest.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["path", "label", "patient"])
            rows.writerows(
                [self.folder / name, self.values[name], self.patient(name)] for name in self.numbers
            )

    def id_of(self, name: str) -> str:
        """Return the id of the image in a file."""
        return png_id(self.numbers[name])
