"""Places of slices as a collection stores them: without dates."""

import hashlib
from dataclasses import replace

from cbir.images.slice_order import CYCLE, DAY, SlicePlace

# Key of the row of the table `labels` that holds the place, also an unknown one, of a DICOM image.
SLICE_PLACE = "slice_place"


def stored_place(secret: bytes, patient: str, series: str, location: SlicePlace) -> str:
    """Return the text of a place whose time is counted from a moment that only the collection's key tells.

    Times of a series can be compared, and hold no date. Without a patient whose identifier is not stored either, the
    time of the day alone is kept.

    Parameters
    ----------
    secret : bytes
        Key of the collection.
    patient : str
        Identifier of the patient, "" to keep no date.
    series : str
        Series Instance UID.
    location : SlicePlace
        Place as the header says it.
    """
    if location.time is None:
        return location.to_text()
    patient = patient.strip()
    digest = hashlib.blake2b(f"slice time {patient}\0{series}".encode(), key=secret, digest_size=8).digest()
    time = location.time if patient else location.time % DAY
    return replace(location, time=(time + int.from_bytes(digest, "big")) % CYCLE).to_text()
