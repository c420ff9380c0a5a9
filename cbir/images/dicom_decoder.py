"""Decoding of DICOM files to images with header fields."""

from collections.abc import Iterator
from math import inf
from typing import Any

from pydicom import uid
from pydicom.dataset import Dataset
from pydicom.multival import MultiValue

from cbir.errors import UnreadableImage
from cbir.images.dicom_dataset import frame_count, parse_dataset
from cbir.images.dicom_display import display_pixels
from cbir.images.dicom_frames import stored_frames
from cbir.images.grey_transforms import FrameHeader, functional_groups
from cbir.images.image import DicomHeader, Image, Window
from cbir.images.limits import Limits
from cbir.images.stored_values import read_pixel_format

SECONDARY_CAPTURES = {
    uid.SecondaryCaptureImageStorage,
    uid.MultiFrameSingleBitSecondaryCaptureImageStorage,
    uid.MultiFrameGrayscaleByteSecondaryCaptureImageStorage,
    uid.MultiFrameGrayscaleWordSecondaryCaptureImageStorage,
    uid.MultiFrameTrueColorSecondaryCaptureImageStorage,
}
LONGEST = 64  # characters of a header value, the maximum of VR LO and UI


def decode_dicom(
    data: bytes, name: str, limits: Limits, window: Window | None = None, find_damage: bool = False
) -> Iterator[Image]:
    """Decode the frames of a DICOM file one at a time.

    Parameters
    ----------
    data : bytes
        The file, with or without preamble.
    name : str
        Source of the images, for messages.
    limits : Limits
        Largest size that is decoded.
    window : (float, float), optional
        Center and width for grey frames, instead of those in the file.
    find_damage : bool
        Also look for damage that decoders conceal.

    Yields
    ------
    Image
        One image per frame, with pixels from `cbir.images.dicom_display.display_pixels`.

    Raises
    ------
    UnreadableImage
        If the file has no pixels that can be decoded, or exceeds the limits.
    """
    try:
        dataset = parse_dataset(data, limits)
        header, count = _header(dataset), frame_count(dataset)
        pixel_format = read_pixel_format(dataset)
        for index, (stored, damaged) in enumerate(stored_frames(dataset, find_damage, pixel_format)):
            frame = FrameHeader(dataset, index, pixel_format.signed)
            pixels, windowing = display_pixels(stored, frame, pixel_format, window)
            number, spacing = index + 1 if count > 1 else None, pixel_spacing(dataset, index)
            unusable = tuple(frame.unusable)
            yield Image(pixels, name, "dicom", number, header, windowing, count, spacing, damaged, unusable)
    except (UnreadableImage, MemoryError):
        raise
    except Exception:  # decoders raise anything on damaged data, and their messages may quote patient data
        raise UnreadableImage("is a damaged DICOM file; copy or export it again") from None


def pixel_spacing(dataset: Dataset, index: int) -> tuple[float, float] | None:
    """Return the millimetres between rows and between columns of frame `index`; None where they are unknown.

    ImagerPixelSpacing, that of the detector, stands in for PixelSpacing (PS3.3, 10.7.1.3).
    """
    item = next(functional_groups(dataset, index, "PixelMeasuresSequence"), dataset)
    for keyword in ("PixelSpacing", "ImagerPixelSpacing"):
        try:
            rows, columns = (float(value) for value in item.get(keyword) or ())
        except (TypeError, ValueError):
            continue
        if 0 < rows < inf and 0 < columns < inf:
            return rows, columns
    return None


def _header(dataset: Dataset) -> DicomHeader:
    def text(*keywords: str) -> str:
        return next(filter(None, (_text(dataset, keyword) for keyword in keywords)), "")

    return DicomHeader(
        study=text("StudyInstanceUID"),
        series=text("SeriesInstanceUID"),
        instance=text("SOPInstanceUID"),
        modality=text("Modality"),
        body_part=text("BodyPartExamined"),
        view_position=text("ViewPosition"),
        laterality=text("ImageLaterality", "Laterality"),
        burned_in=text("BurnedInAnnotation").upper() == "YES",
        patient_id=text("PatientID"),
        photometric=text("PhotometricInterpretation"),
        secondary_capture=text("SOPClassUID") in SECONDARY_CAPTURES,
        study_date=text("StudyDate"),
        sop_class=text("SOPClassUID"),
    )


def _text(dataset: Dataset, keyword: str) -> str:
    """Return the first value of an attribute, "" if it is absent or cannot be read."""
    try:
        value: Any = dataset.get(keyword)
        if isinstance(value, MultiValue):
            value = value[0]
        return str(value or "").strip()[:LONGEST]
    except Exception:  # one bad element is no reason to refuse the image
        return ""
