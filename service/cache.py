"""Small pictures kept in memory."""

from collections import OrderedDict
from threading import Lock


class Cache:
    """Pictures by name, those not asked for longest dropped when they exceed `most` bytes. Thread-safe."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = 0
        self._pictures: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, name: str) -> bytes | None:
        """The picture of that name, if it is kept."""
        with self._lock:
            if name in self._pictures:
                self._pictures.move_to_end(name)
            return self._pictures.get(name)

    def put(self, name: str, picture: bytes) -> None:
        """Keep a picture."""
        with self._lock:
            self.size += len(picture) - len(self._pictures.pop(name, b""))
            self._pictures[name] = picture
            while self.size > self.most:
                self.size -= len(self._pictures.popitem(last=False)[1])

    def clear(self) -> None:
        """Forget all pictures."""
        with self._lock:
            self._pictures.clear()
            self.size = 0
