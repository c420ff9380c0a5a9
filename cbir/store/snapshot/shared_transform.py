"""Statistics that several collections share: taken over from a file, and kept when a collection grows."""

import hmac

from sqlalchemy import Connection, delete

from cbir.store.base import metadata
from cbir.store.base.schema import meta

TRANSFORM_ORIGIN = "shared_transform"  # in `meta`: where the statistics were fitted
FITTED_HERE, FITTED_ELSEWHERE = "here", "elsewhere"


def transform_origin(secret: bytes) -> str:
    """Return the name of the collection with this `secret`, as files of its transform have it."""
    return hmac.digest(secret, b"origin of a shared transform", "sha256").hex()[:16]


def is_shared(connection: Connection) -> bool:
    """Return whether the statistics were taken over: growth of the collection does not change them."""
    return metadata.find_value(connection, TRANSFORM_ORIGIN) is not None


def outlives_erasure(connection: Connection) -> bool:
    """Return whether the statistics say nothing about images of this collection, since they were fitted elsewhere."""
    return metadata.find_value(connection, TRANSFORM_ORIGIN) == FITTED_ELSEWHERE


def note_shared(connection: Connection, fitted_here: bool) -> None:
    """Note that the statistics were taken over; `fitted_here`: they were fitted to images of this collection."""
    metadata.set_value(connection, TRANSFORM_ORIGIN, FITTED_HERE if fitted_here else FITTED_ELSEWHERE)


def forget_shared(connection: Connection) -> None:
    """Note that the statistics are the collection's own."""
    connection.execute(delete(meta).where(meta.c.key == TRANSFORM_ORIGIN))
