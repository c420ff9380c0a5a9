"""From the bytes of a DICOM instance to records, vectors and thumbnails of its selected frames."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from cbir.errors import InvalidInput, UnreadableImage
from cbir.images import DicomHeader, Image, Limits, decode
from cbir.images.dicom_dataset import frame_count, read_header
from cbir.ingest.description import (
    DescribedFile,
    DescribeTask,
    Refusal,
    describe_images,
    refuse,
    with_deadline,
)
from cbir.ingest.process_memory import SharedBytes, load_shared_bytes, memory_limit
from cbir.store.records import originals
from cbir.store.records.dicom_instances import shift_study_date

EVERY_NTH = re.compile(r"every:([1-9][0-9]{0,4})")


@dataclass(frozen=True)
class InstanceFilter:
    """Instances and frames to add.

    frames: "all", "middle" or "every:N" of a multi-frame instance. burned_in, secondary_captures: add instances
    that declare text in their pixels, or are captures of screens and films. study_dates: "drop", or "shift" to
    keep them as a label, shifted per patient (see `cbir.store.records.dicom_instances.shift_study_date`).
    """

    frames: str = "all"
    burned_in: bool = True
    secondary_captures: bool = True
    study_dates: str = "drop"

    def __post_init__(self) -> None:
        if self.frames not in ("all", "middle") and not EVERY_NTH.fullmatch(self.frames):
            raise InvalidInput(
                f"frames {self.frames!r}: must be all, middle, or every:N, for instance every:10"
            )
        if self.study_dates not in ("drop", "shift"):
            raise InvalidInput(f"study dates {self.study_dates!r}: must be drop or shift")

    def selects_frame(self, frame: int | None, count: int) -> bool:
        """Return whether to add frame `frame` (from 1; None: the only one) of `count`."""
        if frame is None or self.frames == "all":
            return True
        if self.frames == "middle":
            return frame == (count + 1) // 2
        return (frame - 1) % int(self.frames.partition(":")[2]) == 0

    def reject_reason(self, header: DicomHeader) -> str:
        """Explain why the instance of `header` is left out; "" if it is not."""
        if header.burned_in and not self.burned_in:
            return "declares burned-in text"
        if header.secondary_capture and not self.secondary_captures:
            return "is a secondary capture"
        return ""


class Fate(Enum):
    """Outcomes of an instance."""

    stored = "stored"
    quarantined = "quarantined by the intake check"
    existing = "there already"
    other_picture = "not stored: there already with another picture"
    no_image = "without an image"
    left_out = "left out by option"
    deleted_earlier = "deleted earlier by somebody"
    unreadable = "cannot be understood"
    full = "no room or no time for it"
    failed = "could not be processed"
    undelivered = "not delivered by the archive"
    gone = "gone from the archive"


FATES = {
    Refusal.no_pixels: Fate.no_image,
    Refusal.unreadable: Fate.unreadable,
    Refusal.out_of_memory: Fate.full,
    Refusal.failed: Fate.failed,
    Refusal.burned_in: Fate.left_out,
}


@dataclass(frozen=True)
class InstanceTask:
    """Settings of a worker process."""

    describe: DescribeTask
    filter: InstanceFilter = field(default_factory=InstanceFilter)
    thumbnails: bool = True


@dataclass(frozen=True)
class InstanceOutcome:
    """Fate of an instance.

    reason: why it is not stored, which never repeats what a header says of a patient. file: its images, until they
    are stored.
    """

    fate: Fate
    reason: str = ""
    file: DescribedFile = field(default_factory=DescribedFile)


class _Rejected(Exception):
    """The instance is not described. args: its fate and the reason."""


def describe_shared_instance(shared: SharedBytes, task: InstanceTask) -> InstanceOutcome:
    """Describe an instance that another process shares."""
    try:
        data = load_shared_bytes(shared)
    except OSError:  # for instance too many open files
        return InstanceOutcome(Fate.failed, "could not be read from shared memory")
    return describe_instance(data, task)


def describe_instance(data: bytes, task: InstanceTask) -> InstanceOutcome:
    """Decode the bytes of a DICOM file and describe its selected frames."""
    headers: list[DicomHeader] = []
    secret, source = task.describe.secret, originals.source_of(data)
    try:
        compute = task.describe.load_descriptor()
        frames = with_deadline(_selected_frames(data, task, headers), task.describe.seconds)
        with memory_limit(task.describe.memory_bytes):
            file = describe_images(
                frames,
                compute,
                secret,
                source,
                "sent",
                task.thumbnails,
                check_intake=task.describe.check_intake,
                study_days=task.describe.study_days,
            )
    except _Rejected as rejected:
        return InstanceOutcome(*rejected.args)
    except Exception as error:  # a bug that one instance triggers must not stop the others
        file = refuse(error)
    if file.refusal is not None:
        return InstanceOutcome(FATES[file.refusal], file.refused or "")
    if not file.records:
        return InstanceOutcome(Fate.unreadable, "has no frame; export it again")
    if task.filter.study_dates == "shift":
        file = _with_shifted_date(file, headers[0], secret)
    return InstanceOutcome(Fate.stored, file=file)


def _selected_frames(data: bytes, task: InstanceTask, headers: list[DicomHeader]) -> Iterator[Image]:
    """Yield the selected frames and note their header. Raises _Rejected."""
    count = 0 if task.filter.frames == "all" else _count_frames(data, task.describe.limits)
    describe = task.describe
    for image in decode(data, "the instance", limits=describe.limits, find_damage=describe.check_intake):
        header = image.dicom
        if header is None or not header.instance:
            raise _Rejected(Fate.unreadable, "has no SOP Instance UID, or is no DICOM object")
        reason = task.filter.reject_reason(header)
        if reason:
            raise _Rejected(Fate.left_out, reason)
        headers.append(header)
        if task.filter.selects_frame(image.frame, count):
            yield image
        if count == 1:
            return


def _count_frames(data: bytes, limits: Limits) -> int:
    try:
        return frame_count(read_header(data, limits, ["NumberOfFrames"]))
    except UnreadableImage:
        raise
    except Exception:  # decoding gives the reason
        return 1


def _with_shifted_date(file: DescribedFile, header: DicomHeader, secret: bytes) -> DescribedFile:
    """Label the records with the study date, shifted."""
    day = shift_study_date(secret, header.patient_id, header.study_date)
    if not day:
        return file
    records = tuple(replace(record, labels=record.labels | {"study_date": day}) for record in file.records)
    return replace(file, records=records)
