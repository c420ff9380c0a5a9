"""DICOM files to images, with what is kept of their headers."""

from collections.abc import Iterator
from typing import Any

from pydicom.dataset import Dataset
from pydicom.multival import MultiValue
from pydicom.uid import (
    MultiFrameGrayscaleByteSecondaryCaptureImageStorage,
    MultiFrameGrayscaleWordSecondaryCaptureImageStorage,
    MultiFrameSingleBitSecondaryCaptureImageStorage,
    MultiFrameTrueColorSecondaryCaptureImageStorage,
    SecondaryCaptureImageStorage,
)

from cbir.errors import UnreadableImage
from cbir.images.dicom_dataset import frame_count, parse_dataset
from cbir.images.dicom_display import display_pixels
from cbir.images.dicom_frames import stored_frames
from cbir.images.image import DicomHeader, Image
from cbir.images.limits import Limits

SECONDARY_CAPTURES = {
    SecondaryCaptureImageStorage,
    MultiFrameSingleBitSecondaryCaptureImageStorage,
    MultiFrameGrayscaleByteSecondaryCaptureImageStorage,
    MultiFrameGrayscaleWordSecondaryCaptureImageStorage,
    MultiFrameTrueColorSecondaryCaptureImageStorage,
}
LONGEST = 64  # characters of a header value that is kept, as of VR LO and UI


def decode_dicom(
    data: bytes, name: str, limits: Limits, window: tuple[float, float] | None = None
) -> Iterator[Image]:
    """The frames of a DICOM file, each as `cbir.images.dicom_display.display_pixels` makes it, one at a time.

    Raises UnreadableImage where it holds no pixels that can be decoded, and beyond the limits.
    """
    try:
        dataset = parse_dataset(data, limits)
        header, count = _header(dataset), frame_count(dataset)
        for index, stored in enumerate(stored_frames(dataset)):
            pixels, windowing = display_pixels(stored, dataset, index, window)
            yield Image(pixels, name, "dicom", index + 1 if count > 1 else None, header, windowing)
    except (UnreadableImage, MemoryError):
        raise
    except Exception:  # damaged data sets lead decoders anywhere; their words may quote the patient's
        raise UnreadableImage("is a damaged DICOM file; copy or export it again") from None


def _header(dataset: Dataset) -> DicomHeader:
    def said(*keywords: str) -> str:
        return next(filter(None, (_text(dataset, keyword) for keyword in keywords)), "")

    return DicomHeader(
        study=said("StudyInstanceUID"),
        series=said("SeriesInstanceUID"),
        instance=said("SOPInstanceUID"),
        modality=said("Modality"),
        body_part=said("BodyPartExamined"),
        view_position=said("ViewPosition"),
        laterality=said("ImageLaterality", "Laterality"),
        burned_in=said("BurnedInAnnotation").upper() == "YES",
        patient_id=said("PatientID"),
        photometric=said("PhotometricInterpretation"),
        secondary_capture=said("SOPClassUID") in SECONDARY_CAPTURES,
        study_date=said("StudyDate"),
        sop_class=said("SOPClassUID"),
    )


def _text(dataset: Dataset, keyword: str) -> str:
    """A value, the first of several; "" where it is absent or cannot be read."""
    try:
        value: Any = dataset.get(keyword)
        if isinstance(value, MultiValue):
            value = value[0]
        return str(value or "").strip()[:LONGEST]
    except Exception:  # one bad element is no reason to refuse the picture
        return ""
