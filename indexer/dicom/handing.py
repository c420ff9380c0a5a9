"""Handing an instance's bytes to another process without squeezing them through a pipe."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

Handed = bytes | str  # the bytes, or where they lie


@contextmanager
def handed(data: bytes) -> Iterator[Handed]:
    """What a child process gets the bytes from with `received`, while this is open; they never lie on a disk."""
    if not hasattr(os, "memfd_create"):  # Linux has it
        yield data
        return
    with open(os.memfd_create("instance"), "wb") as file:
        file.write(data)
        file.flush()
        yield f"/proc/{os.getpid()}/fd/{file.fileno()}"


def received(from_parent: Handed) -> bytes:
    """The bytes."""
    if isinstance(from_parent, bytes):
        return from_parent
    with open(from_parent, "rb") as file:
        return file.read()
