"""Days of studies: numbers whose differences are those of a patient's study dates, and which hold no date."""

import hashlib
from datetime import date

from cbir.errors import InvalidInput

# Key of the row of the table `labels` that holds the day; no label of an image has this key.
STUDY_DAY = "study_day"
DAYS = 2**24  # days, more than any two dates are apart


def relative_day(secret: bytes, patient: str, study_date: str) -> int | None:
    """Return the day of a study, counted from a day of the patient's own that only the collection's key tells.

    Days are counted in a cycle, so that for each date all numbers from 0 to DAYS - 1 are equally probable.

    Parameters
    ----------
    secret : bytes
        Key of the collection.
    patient : str
        Identifier of the patient.
    study_date : str
        Study date, YYYYMMDD (PS3.5, 6.2, DA).

    Returns
    -------
    int or None
        Day, from 0 to DAYS - 1; None without a valid date or a patient.
    """
    parsed = parse_study_date(study_date)
    if parsed is None or not patient.strip():
        return None
    digest = hashlib.blake2b(b"study day " + patient.strip().encode(), key=secret, digest_size=8).digest()
    return (parsed.toordinal() + int.from_bytes(digest, "big")) % DAYS


def parse_study_date(text: str) -> date | None:
    """Return a date of DICOM, YYYYMMDD (PS3.5, 6.2, DA); None if it is not valid."""
    if len(text) != 8 or not (text.isascii() and text.isdigit()):
        return None
    try:
        return date(int(text[:4]), int(text[4:6]), int(text[6:]))
    except ValueError:
        return None


def days_between(earlier: int | None, later: int | None) -> int | None:
    """Return the days from one study of a patient to another, negative the other way round; None if unknown."""
    if earlier is None or later is None:
        return None
    return (later - earlier + DAYS // 2) % DAYS - DAYS // 2


def stored_day(text: str | None) -> int | None:
    """Return the day that is stored as `text`; None for a label of older collections that is no day."""
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isascii() and digits.isdigit() else None


def parse_day(text: str) -> int:
    """Return the day that a manifest gives, a whole number; raise InvalidInput for anything else."""
    digits = text.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 8):
        raise InvalidInput(f"{STUDY_DAY}: {text[:40]!r} is not a whole number of days of at most 7 digits")
    return int(text) % DAYS
