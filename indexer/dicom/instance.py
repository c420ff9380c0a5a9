"""From the bytes of one instance to records, vectors and thumbnails, in a process of its own."""

from dataclasses import dataclass, replace
from enum import Enum
from io import BytesIO
from itertools import islice
from pathlib import Path

import numpy as np
import pydicom
from numpy.typing import NDArray

from cbir import descriptors
from cbir.descriptors import embedding_descriptor
from cbir.errors import UnreadableImage
from cbir.images import DicomHeader, Image, Limits, decode
from cbir.images.dicom_dataset import NoPixels, frame_count
from cbir.images.thumbnail import make_thumbnail
from cbir.store import originals
from cbir.store.instances import shifted
from cbir.store.records import Record, describe_record
from indexer.dicom.options import Choice


class Fate(Enum):
    """What becomes of an instance."""

    stored = "stored"
    known = "there already"
    no_image = "without an image"
    left_out = "left out by option"
    deleted_earlier = "deleted earlier by somebody"
    unreadable = "cannot be understood"
    full = "no room or no time for it"
    failed = "could not be processed"


@dataclass(frozen=True)
class Task:
    """What a process needs to know besides the bytes. model: folder of the descriptor's network, if it has one."""

    descriptor: str
    secret: bytes
    limits: Limits
    choice: Choice
    model: Path | None = None


@dataclass(frozen=True)
class Described:
    """An instance's images: records, vectors and thumbnails (JPEG), one each a frame; or a fate and its reason.

    The reason never repeats what a header says of a patient.
    """

    records: tuple[Record, ...] = ()
    vectors: tuple[NDArray[np.float32], ...] = ()
    pictures: tuple[bytes, ...] = ()
    fate: Fate = Fate.stored
    reason: str = ""


def describe(data: bytes, task: Task) -> Described:
    """Decode a DICOM file's bytes and describe the frames that are chosen of it."""
    if task.model is not None:
        embedding_descriptor.register(task.model)
    compute = descriptors.get(task.descriptor)
    records: list[Record] = []
    vectors: list[NDArray[np.float32]] = []
    pictures: list[bytes] = []
    source = originals.source(data)
    try:
        count = 0 if task.choice.frames == "all" else _frames(data)
        frames = decode(data, "the instance", limits=task.limits)
        for image in islice(frames, 1 if count == 1 else None):
            header = image.dicom
            if header is None or not header.instance:
                return Described(
                    fate=Fate.unreadable, reason="has no SOP Instance UID, or is no DICOM object"
                )
            unwanted = _unwanted(header, task.choice)
            if unwanted:
                return Described(fate=Fate.left_out, reason=unwanted)
            if task.choice.takes(image.frame, count):
                records.append(_record(image, header, source, task))
                vectors.append(compute(image))
                pictures.append(make_thumbnail(image))
    except UnreadableImage as error:
        fate = Fate.no_image if isinstance(error.__cause__, NoPixels) else Fate.unreadable
        return Described(fate=fate, reason=str(error))
    except MemoryError:
        return Described(fate=Fate.full, reason="needs more memory than there is")
    except Exception as error:  # a fault of ours in one instance shall not cost the others
        return Described(fate=Fate.failed, reason=f"could not be described ({type(error).__name__})")
    if not records:
        return Described(fate=Fate.unreadable, reason="has no frame; export it again")
    return Described(tuple(records), tuple(vectors), tuple(pictures))


def _frames(data: bytes) -> int:
    try:
        tags = ["NumberOfFrames"]
        return frame_count(pydicom.dcmread(BytesIO(data), stop_before_pixels=True, specific_tags=tags))
    except UnreadableImage:
        raise
    except Exception:  # decoding says why
        return 1


def _unwanted(header: DicomHeader, choice: Choice) -> str:
    if header.burned_in and not choice.burned_in:
        return "says that it has text burned in"
    if header.secondary_capture and not choice.secondary_captures:
        return "is a secondary capture"
    return ""


def _record(image: Image, header: DicomHeader, source: str, task: Task) -> Record:
    record = describe_record(image, source=source, source_stamp="sent", secret=task.secret)
    if task.choice.study_dates == "shift":
        day = shifted(task.secret, header.patient_id, header.study_date)
        if day:
            return replace(record, labels=record.labels | {"study_date": day})
    return record
