"""Selection of instances and frames."""

import re
from dataclasses import dataclass

from cbir.errors import InvalidInput
from cbir.images import DicomHeader

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
