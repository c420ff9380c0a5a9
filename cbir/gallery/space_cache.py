"""Whitened spaces that were fitted last: at a thousand dimensions a fit takes half a second."""

from collections import OrderedDict
from hashlib import blake2b
from threading import Lock

from cbir.gallery.vector_blocks import Rows
from cbir.gallery.whitening import Space

KEPT = 8  # spaces; one of 1,280 dimensions has 6.5 MB


class SpaceCache:
    """The spaces used last, by the rows that they were fitted to. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._spaces: OrderedDict[bytes, Space] = OrderedDict()

    def get(self, rows: Rows) -> Space | None:
        """Return the space that was fitted to `rows`; None if it is not kept."""
        key = _key(rows)
        with self._lock:
            if key in self._spaces:
                self._spaces.move_to_end(key)
            return self._spaces.get(key)

    def put(self, rows: Rows, space: Space) -> None:
        """Keep the space that was fitted to `rows`."""
        with self._lock:
            self._spaces[_key(rows)] = space
            if len(self._spaces) > KEPT:
                self._spaces.popitem(last=False)


def _key(rows: Rows) -> bytes:
    return blake2b(rows.tobytes(), digest_size=16).digest()
