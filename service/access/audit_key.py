"""File with the key of an audit log's chain."""

import errno
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from cbir.errors import InvalidInput
from cbir.system.files import BINARY, OWNER_FILE

KEY_BYTES = 32


def read_or_create_key(file: Path) -> bytes:
    """Return the key in `file`, a new one if there is no such file; raises OSError and InvalidInput."""
    with suppress(FileNotFoundError):
        return read_key(file)
    key = secrets.token_hex(KEY_BYTES)
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, OWNER_FILE)
    try:
        with os.fdopen(opened, "wb", buffering=0) as written:
            if written.write(key.encode()) < len(key):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
            os.fsync(opened)
    except OSError:
        file.unlink(missing_ok=True)  # half a key would be a damaged one at the next start
        raise
    return bytes.fromhex(key)


def read_key(file: Path) -> bytes:
    """Return the key in `file`; raises OSError, and InvalidInput if it is damaged."""
    text = file.read_text(encoding="ascii", errors="replace").strip()
    if not re.fullmatch(rf"[0-9a-f]{{{2 * KEY_BYTES}}}", text):
        raise InvalidInput(f"{file} is damaged; restore it from a backup, or move it away")
    return bytes.fromhex(text)
