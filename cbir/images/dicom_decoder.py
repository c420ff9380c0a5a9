"""Decoding of DICOM files to images with header fields."""

from collections.abc import Iterator
from math import inf

from pydicom import uid
from pydicom.dataset import Dataset

from cbir.errors import UnreadableImage
from cbir.images.dicom_dataset import frame_count, parse_dataset
from cbir.images.dicom_display import display_pixels
from cbir.images.dicom_frames import stored_frames
from cbir.images.dicom_place import read_slice_place
from cbir.images.grey_transforms import FrameHeader, functional_groups
from cbir.images.image import DicomHeader, Image, Window
from cbir.images.limits import Limits
from cbir.images.patient_facts import first_text, patient_age, patient_sex, series_description
from cbir.images.stored_values import read_pixel_format

SECONDARY_CAPTURES = {
    uid.SecondaryCaptureImageStorage,
    uid.MultiFrameSingleBitSecondaryCaptureImageStorage,
    uid.MultiFrameGrayscaleByteSecondaryCaptureImageStorage,
    uid.MultiFrameGrayscaleWordSecondaryCaptureImageStorage,
    uid.MultiFrameTrueColorSecondaryCaptureImageStorage,
}


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
        header, count = dicom_header(dataset), frame_count(dataset)
        pixel_format = read_pixel_format(dataset)
        for index, (stored, damaged) in enumerate(stored_frames(dataset, find_damage, pixel_format)):
            frame = FrameHeader(dataset, index, pixel_format)
            pixels, windowing = display_pixels(stored, frame, pixel_format, window)
            number, spacing = index + 1 if count > 1 else None, pixel_spacing(dataset, index)
            yield Image(
                pixels,
                name,
                "dicom",
                number,
                header,
                windowing,
                count,
                spacing,
                damaged,
                unusable=tuple(frame.unusable),
                location=read_slice_place(dataset, index),
            )
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


def dicom_header(dataset: Dataset) -> DicomHeader:
    """Return the fields of a data set that records and filters need; pixels are not looked at."""

    def text(*keywords: str) -> str:
        return next(filter(None, (first_text(dataset, keyword) for keyword in keywords)), "")

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
        age=patient_age(dataset),
        sex=patient_sex(dataset),
        series_description=series_description(dataset),
    )
