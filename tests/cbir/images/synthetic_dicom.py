"""Synthetic DICOM files, and what their pixels should become."""

from io import BytesIO

import numpy as np
import pytest
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.uid import ExplicitVRLittleEndian, JPEGBaseline8Bit

from cbir.errors import UnreadableImage
from cbir.images import decode

RNG = np.random.default_rng(0)
STORED = RNG.integers(-1000, 3000, (12, 17), dtype=np.int16)
COLOUR = RNG.integers(0, 256, (12, 17, 3), dtype=np.uint8)
CT = "1.2.840.10008.5.1.4.1.1.2"


def dicom_set(stored=STORED, frames=None, **attributes):
    """A data set; stored: (rows, columns), (rows, columns, 3), or with `frames`, those first."""
    stored = np.asarray(stored)
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.MediaStorageSOPClassUID = dataset.SOPClassUID = CT
    dataset.file_meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID = "1.2.3"
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    shape = stored.shape if frames is None else stored.shape[1:]
    dataset.Rows, dataset.Columns = shape[:2]
    if frames is not None:
        dataset.NumberOfFrames = frames
    dataset.SamplesPerPixel = 3 if len(shape) == 3 else 1
    if len(shape) == 3:
        dataset.PlanarConfiguration = 0
    dataset.PhotometricInterpretation = "RGB" if len(shape) == 3 else "MONOCHROME2"
    dataset.BitsAllocated = dataset.BitsStored = 8 * stored.dtype.itemsize
    dataset.HighBit = dataset.BitsStored - 1
    dataset.PixelRepresentation = int(stored.dtype.kind == "i")
    raw = stored.tobytes() + bytes(stored.nbytes % 2)
    if stored.dtype.kind == "f":
        keyword = "FloatPixelData" if stored.dtype.itemsize == 4 else "DoubleFloatPixelData"
        setattr(dataset, keyword, raw)
    else:
        dataset.PixelData = raw
        dataset["PixelData"].VR = "OW"
    for keyword, value in attributes.items():
        setattr(dataset, keyword, value)
    return dataset


def written(dataset):
    """The bytes of its file."""
    file = BytesIO()
    dataset.save_as(file, enforce_file_format=True)
    return file.getvalue()


def displayed(stored=STORED, **attributes):
    """The pixels of a file with one frame."""
    (image,) = decode(written(dicom_set(stored, **attributes)))
    assert image.format == "dicom"
    assert image.frame is None
    return image.pixels


def item(**attributes):
    dataset = Dataset()
    for keyword, value in attributes.items():
        setattr(dataset, keyword, value)
    return dataset


def lut(entries, first, bits=16, vr="US"):
    """An item of a modality or VOI LUT sequence."""
    dataset = item(LUTDescriptor=[len(entries) % 65536, first, bits])
    dataset.add_new(
        "LUTData",
        vr,
        [int(entry) for entry in entries] if vr == "US" else np.asarray(entries, "<u2").tobytes(),
    )
    return dataset


def by_percentiles(values, seen=None):
    low, high = np.percentile(values if seen is None else seen, (1, 99))
    return np.rint((np.clip(values, low, high) - low) / (high - low) * 255)


def linear(x, c, w):
    """PS3.3, C.11.2.1.2.1, line by line."""
    if x <= c - 0.5 - (w - 1) / 2:
        return 0
    if x > c - 0.5 + (w - 1) / 2:
        return 255
    return ((x - (c - 0.5)) / (w - 1) + 0.5) * 255


def compressed(coded, rows, columns, syntax=JPEGBaseline8Bit):
    dataset = dicom_set(np.zeros((rows, columns), np.uint8))
    dataset.file_meta.TransferSyntaxUID = syntax
    dataset.PixelData = encapsulate([coded])
    dataset["PixelData"].VR = "OB"
    return written(dataset)


def refused(dataset, **options):
    with pytest.raises(UnreadableImage) as caught:
        list(decode(dataset if isinstance(dataset, bytes) else written(dataset), "scan.dcm", **options))
    assert str(caught.value).startswith("scan.dcm ")
    return str(caught.value)
