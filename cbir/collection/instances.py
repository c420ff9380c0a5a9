"""What a collection knows of DICOM instances by their UIDs, and the one thing it may keep of their dates."""

import hashlib
from collections.abc import Iterable
from datetime import date, timedelta

from sqlalchemy import Connection, select

from cbir.collection.rows import parts
from cbir.collection.schema import images

YEARS = 5  # a date is moved back by at most these


def known(connection: Connection, instances: Iterable[str]) -> set[str]:
    """Those of the SOP Instance UIDs that images of the collection have."""
    found: set[str] = set()
    for part in parts(sorted({one for one in instances if one})):
        column = images.c.instance
        found.update(connection.scalars(select(column).where(column.in_(part)).distinct()))
    return found


def shifted(secret: bytes, patient: str, day: str) -> str:
    """A study date (YYYYMMDD) moved back by 1 to 1826 days, the same for all of a patient's; "" for no date.

    So the time between two studies of a patient stays, and nobody without the collection's key can tell when they
    were (PS3.15, E.3.6, Retain Longitudinal Temporal Information with Modified Dates).
    """
    try:
        told = date(int(day[:4]), int(day[4:6]), int(day[6:8])) if len(day) == 8 else None
    except ValueError:
        told = None
    if told is None or not patient.strip():  # without a patient there is nothing to be the same for
        return ""
    digest = hashlib.blake2b(b"date " + patient.strip().encode(), key=secret, digest_size=8).digest()
    try:
        moved = told - timedelta(days=1 + int.from_bytes(digest, "big") % (YEARS * 365 + 1))
    except OverflowError:
        return ""
    return moved.strftime("%Y%m%d") if moved.year >= 1000 else ""
