"""DICOM data sets to images: stored values, modality transformation, window, eight bits."""

import logging
import warnings
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import numpy as np
import pydicom
from numpy.typing import NDArray
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate, generate_frames
from pydicom.pixels import apply_color_lut, apply_modality_lut, apply_voi, iter_pixels
from pydicom.uid import ExplicitVRBigEndian, ExplicitVRLittleEndian, ImplicitVRLittleEndian, JPEGExtended12Bit

from cbir.errors import UnreadableImage
from cbir.images.depth import clip, simplest, stretch
from cbir.images.image import DicomHeader, Image
from cbir.images.limits import Limits

PIXELS = ("PixelData", "FloatPixelData", "DoubleFloatPixelData")
# Where enhanced multi-frame objects say what others say at the top (PS3.3, C.7.6.16.2).
FUNCTIONAL_GROUPS = ("PixelValueTransformationSequence", "FrameVOILUTSequence")
LONGEST = 64  # characters of a header value that is kept, as of VR LO

warnings.filterwarnings("ignore", module="pydicom")  # its warnings may quote a patient's data
logging.getLogger("pydicom").setLevel(logging.CRITICAL)


def frames(data: bytes, name: str, limits: Limits) -> Iterator[Image]:
    """The frames of a DICOM file. Raises UnreadableImage where it holds no pixels that can be decoded."""
    try:
        dataset = pydicom.dcmread(BytesIO(data), force=True)
        _check(dataset, name, limits)
        count = _count(dataset)
        for number, stored in enumerate(iter_pixels(dataset), start=1):
            pixels = _bytes(stored, dataset, number - 1)
            yield Image(simplest(pixels), name, "dicom", number if count > 1 else None, _header(dataset))
    except UnreadableImage:
        raise
    except MemoryError:
        raise UnreadableImage(f"{name} needs more memory than there is") from None
    except (
        Exception
    ) as error:  # damaged data sets lead decoders anywhere; their words may quote the patient's
        raise UnreadableImage(f"{name}: {_reason(data)}") from error


def _reason(data: bytes) -> str:
    """Why decoding failed, as far as it can be said without quoting the data set."""
    try:
        syntax = pydicom.dcmread(
            BytesIO(data), force=True, stop_before_pixels=True
        ).file_meta.TransferSyntaxUID
    except Exception:
        return "is a damaged DICOM file"
    if syntax.is_private or syntax.name == str(syntax):
        return f"its transfer syntax {syntax} is not known; convert it to one of the standard"
    if syntax.is_compressed:
        return f"its pixels, in {syntax.name}, are damaged or cannot be decoded; try it uncompressed"
    return "its pixel data are damaged or do not fit its header"


def _check(dataset: Dataset, name: str, limits: Limits) -> None:
    """Raise UnreadableImage where there are no pixels, or too many; complete what old files leave out."""
    if not any(keyword in dataset for keyword in PIXELS):
        kind = getattr(dataset.get("SOPClassUID"), "name", "")
        raise UnreadableImage(f"{name} holds no pixels" + (f": it is a {kind}" if kind else ""))
    limits.check_pixels(name, int(dataset.get("Columns", 0)), int(dataset.get("Rows", 0)))
    limits.check_frames(name, _count(dataset))
    if "TransferSyntaxUID" not in dataset.file_meta:
        implicit, little = dataset.original_encoding
        explicit = ExplicitVRLittleEndian if little else ExplicitVRBigEndian
        dataset.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian if implicit else explicit
    if dataset.file_meta.TransferSyntaxUID == JPEGExtended12Bit:
        _mend_scans(dataset)


def _mend_scans(dataset: Dataset) -> None:
    """Correct sequential JPEG frames whose scan says that it ends at coefficient 0 instead of 63.

    Some writers set both ends to 0; ISO/IEC 10918-1, B.2.3 demands 63, and libjpeg refuses all else.
    """
    frames = [
        bytearray(frame) for frame in generate_frames(dataset.PixelData, number_of_frames=_count(dataset))
    ]
    for frame in frames:
        scan = frame.find(b"\xff\xda")
        end = scan + 2 + int.from_bytes(frame[scan + 2 : scan + 4], "big")
        if scan > 0 and frame[end - 3 : end] == b"\0\0\0":
            frame[end - 2] = 63
    dataset.PixelData = encapsulate([bytes(frame) for frame in frames])


def _count(dataset: Dataset) -> int:
    return int(dataset.get("NumberOfFrames") or 1)


def _header(dataset: Dataset) -> DicomHeader:
    def said(*keywords: str) -> str:
        for keyword in keywords:
            value = dataset.get(keyword)
            if value:
                return str(value).strip()[:LONGEST]
        return ""

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
    )


def _bytes(stored: NDArray[Any], dataset: Dataset, frame: int) -> NDArray[np.uint8]:
    """One frame's stored values, (rows, columns) or (rows, columns, 3) RGB, as they are to be seen."""
    if dataset.PhotometricInterpretation == "PALETTE COLOR":
        return _eight(apply_color_lut(stored, dataset), int(dataset.RedPaletteColorLookupTableDescriptor[2]))
    if stored.ndim == 3:
        return _eight(stored, int(dataset.BitsStored))
    settings = _settings(dataset, frame)
    values = apply_modality_lut(stored, settings)
    if not np.isfinite(values).all():
        raise ValueError("values that are not finite numbers")
    pixels = _windowed(values, settings)
    if pixels is None:
        pixels = stretch(values.astype(np.float64), _visible(stored, dataset))
    return 255 - pixels if dataset.PhotometricInterpretation == "MONOCHROME1" else pixels


def _eight(colour: NDArray[Any], bits: int) -> NDArray[np.uint8]:
    """Colour values of `bits` bits as bytes."""
    if colour.dtype == np.uint8 and bits <= 8:
        return colour
    return clip(colour.astype(np.float64) * (255.0 / (2**bits - 1)))


def _settings(dataset: Dataset, frame: int) -> Dataset:
    """The data set whose modality and window attributes hold for a frame (from 0)."""
    shared = dataset.get("SharedFunctionalGroupsSequence") or []
    each = dataset.get("PerFrameFunctionalGroupsSequence") or []
    groups = [*shared[:1], *each[frame : frame + 1]]
    found = [group[keyword][0] for keyword in FUNCTIONAL_GROUPS for group in groups if group.get(keyword)]
    if not found:
        return dataset
    settings = Dataset()
    for keyword in ("BitsStored", "PixelRepresentation"):
        if keyword in dataset:
            setattr(settings, keyword, dataset[keyword].value)
    for item in found:
        settings.update(item)
    return settings


def _windowed(values: NDArray[Any], settings: Dataset) -> NDArray[np.uint8] | None:
    """Values through the first VOI LUT or window (PS3.3, C.11.2); None where there is none that can be used."""
    if settings.get("VOILUTSequence"):
        table = settings.VOILUTSequence[0]
        bits = int(table.LUTDescriptor[2])
        return clip(apply_voi(values.astype(np.int64), settings).astype(np.float64) * (255.0 / (2**bits - 1)))
    centre, width = _first(settings.get("WindowCenter")), _first(settings.get("WindowWidth"))
    if centre is None or width is None or width <= 0:
        return None
    values = values.astype(np.float64)
    function = str(settings.get("VOILUTFunction") or "LINEAR")
    if function == "SIGMOID":
        return clip(255.0 / (1.0 + np.exp(np.clip(-4.0 * (values - centre) / width, -700.0, 700.0))))
    if function == "LINEAR_EXACT":
        return clip(((values - centre) / width + 0.5) * 255.0)
    if width <= 1.0:
        return np.where(values > centre - 0.5, 255, 0).astype(np.uint8)
    return clip(((values - (centre - 0.5)) / (width - 1.0) + 0.5) * 255.0)


def _first(value: Any) -> float | None:
    """The first of one or several numbers; None where there is none."""
    try:
        number = float(value[0] if isinstance(value, (list, tuple, pydicom.multival.MultiValue)) else value)
    except (TypeError, ValueError, IndexError):
        return None
    return number if np.isfinite(number) else None


def _visible(stored: NDArray[Any], dataset: Dataset) -> NDArray[np.bool_] | None:
    """Where the stored values are no padding (PS3.3, C.7.5.1.1.2); None where all may be seen."""
    padding = _first(dataset.get("PixelPaddingValue"))
    if padding is None:
        return None
    limit = _first(dataset.get("PixelPaddingRangeLimit"))
    least, most = sorted((padding, padding if limit is None else limit))
    return (stored < least) | (stored > most)
