"""Parsing of DICOM bytes to a data set with pixels and a transfer syntax."""

import threading
import zlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

import numpy as np
import pydicom
from pydicom import uid
from pydicom.charset import default_encoding
from pydicom.datadict import dictionary_VR
from pydicom.dataelem import RawDataElement
from pydicom.dataset import Dataset
from pydicom.filereader import read_dataset, read_partial, read_preamble, read_sequence
from pydicom.hooks import hooks, raw_element_value, raw_element_vr
from pydicom.multival import MultiValue
from pydicom.valuerep import VR

from cbir.errors import NoPixels, UnreadableImage
from cbir.images.image import Limits
from cbir.images.tiff import SLIDE_ADVICE

FLOAT_PIXELS = ("FloatPixelData", "DoubleFloatPixelData")
PIXELS = ("PixelData", *FLOAT_PIXELS)
SEGMENTATIONS = (uid.SegmentationStorage, "1.2.840.10008.5.1.4.1.1.66.7")  # the second: of label maps
CHUNK_BYTES = 2**20  # inflated at a time
# Bounds of a file, and what each frame adds: an element takes 10 microseconds, and enhanced frames have up to 300.
ITEMS_OF_FILE, ITEMS_OF_FRAME = 50_000, 60  # of all sequences, fragments of pixel data included
READS_OF_FILE, READS_OF_FRAME = 200_000, 600  # two for an element, and one more for a long one
NUMBER_OF_FRAMES = 0x00280008
KNOWN_VRS = frozenset(VR)
ITEM_TAGS = b"\xfe\xff\x00\xe0", b"\xff\xfe\xe0\x00"  # (FFFE,E000) in either byte order


class ReadBudget:
    """Reads that are left for a file, its sequences included, which pydicom reads on their first use."""

    def __init__(self, frames: int) -> None:
        self.left = READS_OF_FILE + READS_OF_FRAME * frames


_latest = threading.local()  # its budget: of the file that this thread read last


class CountingFile(BytesIO):
    """File that ends with UnreadableImage when its budget is used up: pydicom reads each element by itself."""

    def __init__(self, content: bytes, budget: ReadBudget) -> None:
        super().__init__(content)
        self._budget = budget

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as BytesIO does."""
        self._budget.left -= 1
        self.check()
        return super().read(size)

    def __exit__(self, *_: object) -> None:
        self.check()
        self.close()

    def check(self) -> None:
        """Raise UnreadableImage if there were too many reads; pydicom replaces what `read` raises."""
        if self._budget.left < 0:
            raise UnreadableImage("has too many DICOM elements; export it without private ones")


def parse_dataset(data: bytes, limits: Limits) -> Dataset:
    """Parse the bytes of a DICOM file; check that it has pixels and keeps to `limits`.

    pydicom guesses the encoding of a file without preamble and meta information. Raises UnreadableImage.
    """
    dataset = _read_bounded(data, limits)
    if not any(keyword in dataset for keyword in PIXELS):
        kind = _kind(dataset)
        if "Image Storage" in kind:  # in the names of all image classes and no others
            raise UnreadableImage(
                f"has no pixels, though {kind}: only a header, or truncated; copy or export it again"
            )
        raise NoPixels(f"has no pixels: {kind}; choose an object with an image")
    _check_class(dataset)
    for keyword in ("Rows", "Columns"):
        if first_number(dataset, keyword) is None:
            raise UnreadableImage(f"has no {keyword}; export it again")
    samples = integer(dataset, "SamplesPerPixel", 3)  # the most that it may turn out to be
    sample_bytes = -(-integer(dataset, "BitsAllocated", 8) // 8)
    limits.check_frame(
        integer(dataset, "Columns", 0), integer(dataset, "Rows", 0), max(samples, 1) * max(sample_bytes, 1)
    )
    limits.check_frames(frame_count(dataset))
    if samples not in (1, 3):
        raise UnreadableImage("has neither 1 nor 3 samples per pixel; convert it to grey or RGB")
    if "TransferSyntaxUID" not in dataset.file_meta:
        implicit, little = dataset.original_encoding
        explicit = uid.ExplicitVRLittleEndian if little else uid.ExplicitVRBigEndian
        dataset.file_meta.TransferSyntaxUID = uid.ImplicitVRLittleEndian if implicit else explicit
    return dataset


def read_header(data: bytes, limits: Limits, keywords: Sequence[str] | None) -> Dataset:
    """Read some attributes of a DICOM file, all of them before its pixels.

    Parameters
    ----------
    data : bytes
        The file, with or without preamble.
    limits : Limits
        Its `inflated_bytes` bound a deflated data set.
    keywords : sequence of str or None
        Attributes to read, others are skipped; None: all.

    Raises
    ------
    UnreadableImage
        If there are too many elements or items to read; pydicom's errors for damage.
    """
    tags = None if keywords is None else list(keywords)
    return _read_bounded(data, limits, stop_before_pixels=True, specific_tags=tags)


def _read_bounded(data: bytes, limits: Limits, **options: Any) -> Dataset:
    """Call `dcmread` for data with a bounded number of elements and items, and a bounded size once inflated.

    Frames that the file declares raise the bounds.
    """
    data = _inflated(data, limits)
    frames = _declared_frames(data, limits)
    most_items = ITEMS_OF_FILE + ITEMS_OF_FRAME * frames
    if max(map(data.count, ITEM_TAGS)) > most_items:
        raise UnreadableImage(f"has more than {most_items} items in DICOM sequences; split it")
    budget = ReadBudget(frames)
    with CountingFile(data, budget) as file:
        dataset = pydicom.dcmread(file, force=True, **options)
    dataset.read_budget = _latest.budget = budget
    return dataset


def _declared_frames(data: bytes, limits: Limits) -> int:
    """Return the number of frames that a file declares, at least 1 and at most that of `limits`."""
    with CountingFile(data, ReadBudget(1)) as file:
        header = read_partial(
            file,
            stop_when=lambda tag, vr, length: tag > NUMBER_OF_FRAMES,
            force=True,
            specific_tags=[NUMBER_OF_FRAMES],
        )
    try:
        return min(max(frame_count(header), 1), limits.frames)
    except UnreadableImage:  # a wrong number is refused where frames are needed
        return 1


def _inflated(data: bytes, limits: Limits) -> bytes:
    """Return a file with a deflated data set as one in Explicit VR Little Endian, any other unchanged.

    pydicom would inflate it without a limit, to a file of its own whose elements are not counted.
    """
    file = BytesIO(data)
    read_preamble(file, force=True)
    meta = read_dataset(file, False, True, stop_when=lambda tag, vr, length: tag.group != 2)
    if meta.get("TransferSyntaxUID") != uid.DeflatedExplicitVRLittleEndian:
        return data
    syntax = uid.ExplicitVRLittleEndian.ljust(len(uid.DeflatedExplicitVRLittleEndian), "\0")
    start = data[: file.tell()].replace(uid.DeflatedExplicitVRLittleEndian.encode(), syntax.encode())
    return b"".join([start, *_inflated_chunks(file.read(), min(limits.bytes, limits.inflated_bytes))])


def _inflated_chunks(deflated: bytes, limit: int) -> Iterator[bytes]:
    inflate, size = zlib.decompressobj(-zlib.MAX_WBITS), 0
    while deflated and not inflate.eof:
        chunk = inflate.decompress(deflated, CHUNK_BYTES)
        deflated, size = inflate.unconsumed_tail, size + len(chunk)
        if size > limit:
            raise UnreadableImage(f"inflates to more than {limit} bytes; store it without deflation")
        yield chunk
    if not inflate.eof:
        raise UnreadableImage("is truncated in its deflated data set; copy or export it again")


def _convert_element(raw: RawDataElement, data: dict[str, Any], **options: Any) -> None:
    """Convert an element on its first use as pydicom does, but count the elements of a sequence."""
    if data["VR"] != VR.SQ or not raw.value:
        raw_element_value(raw, data, **options)
        return
    encoding = options.get("encoding") or default_encoding
    # Items of sequences do not know their file; their thread has just read it.
    budget = (
        getattr(options.get("ds"), "read_budget", None) or getattr(_latest, "budget", None) or ReadBudget(1)
    )
    with CountingFile(raw.value, budget) as file:
        data["value"] = read_sequence(
            file, raw.is_implicit_VR, raw.is_little_endian, len(raw.value), encoding, raw.value_tell
        )
    for item in data["value"]:
        item.read_budget = budget


def _find_vr(raw: RawDataElement, data: dict[str, Any], **options: Any) -> None:
    """Find the VR of an element as pydicom does, also where there is no such VR, and of long sequences as UN."""
    raw_element_vr(raw, data, **options)
    is_vr = data["VR"] in KNOWN_VRS
    if is_vr and data["VR"] != VR.UN:
        return
    try:
        dictionary = dictionary_VR(raw.tag)
    except KeyError:
        dictionary = VR.UN
    if dictionary == VR.SQ or not is_vr:
        data["VR"] = dictionary


hooks.register_callback("raw_element_vr", _find_vr)
hooks.register_callback("raw_element_value", _convert_element)


def _check_class(dataset: Dataset) -> None:
    """Refuse objects whose pixels are not an image to search for, or only tiles of one."""
    kind = str(dataset.get("SOPClassUID") or "")
    if kind in SEGMENTATIONS:
        raise NoPixels("is a segmentation, a map of labels; choose the images that it belongs to")
    if kind == uid.VLWholeSlideMicroscopyImageStorage:
        raise UnreadableImage(f"is a whole-slide image (DICOM); {SLIDE_ADVICE}")


def _kind(dataset: Dataset) -> str:
    """Describe the SOP class of an object without pixels."""
    value = dataset.get("SOPClassUID") or dataset.file_meta.get("MediaStorageSOPClassUID") or ""
    name = uid.UID(value).name
    return f"it is of class {name}" if name != value else "it is of an unknown class"


def frame_count(dataset: Dataset) -> int:
    """Return NumberOfFrames, 1 if absent or empty; raise UnreadableImage if it is not a number."""
    try:
        return int(dataset.get("NumberOfFrames") or 1)
    except (TypeError, ValueError):
        raise UnreadableImage("has a NumberOfFrames that is not a number; export it again") from None


def integer(dataset: Dataset, keyword: str, default: int) -> int:
    """Return the first value of the integer attribute `keyword` of `dataset`, `default` if absent or empty."""
    number = first_number(dataset, keyword)
    return default if number is None else int(number)


def first_number(dataset: Dataset, keyword: str) -> float | None:
    """Return the first value of an attribute; None if absent, empty, not a number or not finite."""
    try:
        value: Any = dataset.get(keyword)
        return finite_number(value[0] if isinstance(value, (list, tuple, MultiValue)) else value)
    except (TypeError, ValueError, IndexError):
        return None


def finite_number(value: Any) -> float | None:
    """Return a value as a number; None if it is not one, or not finite."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if np.isfinite(number) else None
