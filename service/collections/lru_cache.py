"""Memory cache of encoded thumbnails."""

from collections import OrderedDict
from threading import Lock


class LruCache:
    """Pictures by key; the least recently used are dropped above `max_bytes`. Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size = 0
        self._pictures: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> bytes | None:
        """Return the picture of `key`, None if it is not cached."""
        with self._lock:
            if key in self._pictures:
                self._pictures.move_to_end(key)
            return self._pictures.get(key)

    def put(self, key: str, picture: bytes) -> None:
        """Store `picture` under `key`."""
        with self._lock:
            self.size += len(picture) - len(self._pictures.pop(key, b""))
            self._pictures[key] = picture
            while self.size > self.max_bytes:
                self.size -= len(self._pictures.popitem(last=False)[1])

    def clear(self) -> None:
        """Drop all pictures."""
        with self._lock:
            self._pictures.clear()
            self.size = 0
