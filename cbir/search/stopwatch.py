"""Timing of the stages of a search."""

import time

from cbir.system.cancellation import checkpoint


class Stopwatch:
    """Milliseconds of named stages."""

    def __init__(self) -> None:
        self.started = self.last = time.perf_counter()
        self.stages: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        """Add the time since the last lap to `stage`, and pass a checkpoint."""
        now = time.perf_counter()
        self.stages[stage] = self.stages.get(stage, 0.0) + (now - self.last) * 1000
        self.last = now
        checkpoint()

    def add(self, stage: str, milliseconds: float) -> None:
        """Add time that a stage took before this watch was started."""
        self.stages[stage] = self.stages.get(stage, 0.0) + milliseconds
        self.started -= milliseconds / 1000

    def done(self) -> dict[str, float]:
        """Return all stages, rounded, with their total."""
        total = (time.perf_counter() - self.started) * 1000
        return {stage: round(ms, 3) for stage, ms in (self.stages | {"total": total}).items()}
