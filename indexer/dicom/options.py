"""What is taken of the instances that come in."""

import re
from dataclasses import dataclass

from cbir.errors import InvalidInput

EVERY = re.compile(r"every:([1-9][0-9]{0,4})")


@dataclass(frozen=True)
class Choice:
    """frames: "all", "middle" or "every:N" of an instance with several. burned_in, secondary_captures: whether
    instances that say they have text in their pixels, or are pictures of screens and films, are taken.
    study_dates: "drop", or "shift" to keep them as a label, moved (see `cbir.store.instances.shifted`).
    """

    frames: str = "all"
    burned_in: bool = True
    secondary_captures: bool = True
    study_dates: str = "drop"

    def __post_init__(self) -> None:
        if self.frames not in ("all", "middle") and not EVERY.fullmatch(self.frames):
            raise InvalidInput(
                f"frames {self.frames!r} cannot be chosen: all, middle, or every:N, as every:10"
            )
        if self.study_dates not in ("drop", "shift"):
            raise InvalidInput(f"study dates cannot be {self.study_dates!r}: drop or shift")

    def takes(self, frame: int | None, count: int) -> bool:
        """Whether frame `frame` (from 1; None for the only one) of `count` is taken."""
        if frame is None or self.frames == "all":
            return True
        if self.frames == "middle":
            return frame == (count + 1) // 2
        return (frame - 1) % int(self.frames.partition(":")[2]) == 0
