"""Key of a collection, which patients' identifiers are hashed with."""

import errno
import hmac
from pathlib import Path

from cbir.errors import CollectionDamaged
from cbir.store.base.schema import SECRET

OUT_OF_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}  # says nothing about the file
SECRET_BYTES = 32
KEY_CHECK = "key_check"  # key in `meta`: a hash of the key, so that another one is noticed


def read_secret(folder: Path) -> bytes:
    """Return the key that patients' identifiers are hashed with.

    Raises CollectionDamaged, or OSError if the process cannot open files at the moment.
    """
    damaged = f"the key file {SECRET} of {folder} is missing or damaged"
    try:
        secret = bytes.fromhex((folder / SECRET).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in OUT_OF_RESOURCES:
            raise
        raise CollectionDamaged(damaged) from error
    if len(secret) != SECRET_BYTES:
        raise CollectionDamaged(damaged)
    return secret


def hash_key(secret: bytes) -> str:
    """Return the value that tells whether a key is the same, from which the key cannot be computed."""
    return hmac.digest(secret, b"key of this collection", "sha256").hex()
