"""Memory that is not used any more goes back to the system."""

import numpy as np
import pytest

from cbir.ingest.process_memory import STATM, resident_memory
from cbir.system.threads import release_memory

PIECE = 8000  # float64 values, of which the C library keeps what was freed


@pytest.mark.skipif(not STATM.exists(), reason="without /proc")
def test_freed_memory_between_used_one_is_returned() -> None:
    pieces = [np.ones(PIECE) for _ in range(1000)]
    before = resident_memory()
    pieces = pieces[::10]
    release_memory()
    after = resident_memory()
    assert before is not None
    assert after is not None
    assert before - after > 0.6 * 1000 * PIECE * 8
    assert all(piece.sum() == PIECE for piece in pieces)
