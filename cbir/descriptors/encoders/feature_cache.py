"""Encoders' values on disk, so that an image goes through a network once, however many heads are trained.

A folder per encoder and hash of its card holds files of up to CHUNK images. Each is complete or absent, so that an
interrupted run continues where it was, and several processes may add to a folder at the same time.
"""

import hashlib
import logging
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders import Encoder
from cbir.images import Image
from cbir.system.files import atomic_binary, private_folder

CHUNK = 512  # images of a file
HASH = "S32"

log = logging.getLogger(__name__)


class FeatureCache:
    """Values of one encoder by the content of the image; a context manager that stores new ones. Thread-safe.

    Parameters
    ----------
    encoder : Encoder
        Runs on one thread per caller, so that callers may use a thread per core.
    folder : Path
        Folder of all caches; created.
    """

    def __init__(self, encoder: Encoder, folder: Path) -> None:
        """Open the cache; raise InvalidInput if the encoder describes CT series."""
        _ = encoder.image_input
        self.dimensions = encoder.dimensions
        self._encoder, self._network = encoder, encoder.open_network(threads=1)
        self._folder = folder / f"{encoder.name}-{encoder.card.hash}"
        self._is_stored = True
        try:
            private_folder(self._folder)
        except OSError as error:  # a home folder of another user, for instance
            self._is_stored = False
            log.warning("%s cannot be used, so that nothing is kept there: %s", self._folder, error.strerror)
        self._dtype = np.dtype([("content", HASH), ("values", "<f2", (self.dimensions,))])
        self._known: dict[bytes, NDArray[np.float16]] = {}
        self._new: dict[bytes, NDArray[np.float16]] = {}
        self._lock = Lock()
        for path in sorted(self._folder.glob("*.npy")) if self._is_stored else ():
            self._read(path)

    def __len__(self) -> int:
        return len(self._known)

    def __enter__(self) -> "FeatureCache":
        return self

    def __exit__(self, *_: object) -> None:
        self._store()

    def describe(self, image: Image) -> NDArray[np.float16]:
        """Return the values of `image`, (dimensions,), as the network gives them.

        Raises UndescribableImage if they cannot be stored.
        """
        key = image.content_hash.encode()
        if key not in self._known:
            values = self._network.describe(self._encoder.prepare(image)).astype(np.float16)
            with self._lock:
                self._known[key] = self._new[key] = values
                if len(self._new) >= CHUNK:
                    self._store()
        return self._known[key]

    def _store(self) -> None:
        """Write the new values to a file named after their images."""
        if not self._new or not self._is_stored:
            self._new = {}
            return
        rows = np.empty(len(self._new), self._dtype)
        rows["content"], rows["values"] = list(self._new), list(self._new.values())
        name = hashlib.blake2b(rows["content"].tobytes(), digest_size=8).hexdigest()
        with atomic_binary(self._folder / f"{name}.npy") as file:
            np.save(file, rows, allow_pickle=False)
        self._new = {}

    def _read(self, path: Path) -> None:
        """Read a file; images of a damaged one, which is removed, or of another user's are described again."""
        try:
            rows = np.load(path, mmap_mode="r", allow_pickle=False)
            if rows.dtype != self._dtype:
                raise ValueError
        except (ValueError, EOFError):
            path.unlink(missing_ok=True)
            return
        except OSError:  # whole, perhaps, but not to be read by this process
            return
        self._known |= zip(rows["content"].tolist(), rows["values"], strict=True)
