"""Hand the bytes of a file to another process through shared memory instead of a pipe."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

SharedBytes = bytes | str  # the bytes, or the path of an open memory file


@contextmanager
def share_bytes(data: bytes) -> Iterator[SharedBytes]:
    """Yield a handle to `data` for `load_shared_bytes` in a child process. The bytes never reach a disk."""
    if not hasattr(os, "memfd_create"):  # Linux only
        yield data
        return
    with open(os.memfd_create("instance"), "wb") as file:
        file.write(data)
        file.flush()
        yield f"/proc/{os.getpid()}/fd/{file.fileno()}"


def load_shared_bytes(shared: SharedBytes) -> bytes:
    """Return the bytes behind `shared`."""
    if isinstance(shared, bytes):
        return shared
    with open(shared, "rb") as file:
        return file.read()
