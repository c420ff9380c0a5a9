"""Record of an image: everything a collection stores of it besides its vector.

Some facts are stored as labels with reserved keys, which no filter finds: the day of the study, a number whose
differences are those of a patient's study dates and which holds no date, and the place of a slice.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.images import DicomHeader, Image
from cbir.images.slice_order import CYCLE, DAY, SlicePlace
from cbir.store.base.reserved_labels import RESERVED, SLICE_PLACE, STUDY_DAY
from cbir.system.files import harmless_cell


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


def parse_day(text: str) -> int:
    """Return the day that a manifest gives, a whole number; raise InvalidInput for anything else."""
    digits = text.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 8):
        raise InvalidInput(f"{STUDY_DAY}: {text[:40]!r} is not a whole number of days of at most 7 digits")
    return int(text) % DAYS


PERSON_LABELS = ("age", "sex", "series_description")  # of DICOM headers

STUDY_DATE = "study_date"  # label of shifted dates, which are shifted by the patient

OF_PATIENT = (STUDY_DAY, STUDY_DATE, SLICE_PLACE, "age", "sex")  # what counts for one patient alone

FINDINGS_LABEL = "intake"  # of images with findings, which says what they are

UNUSABLE_LABEL = "unusable"  # of images whose file has attributes for display that cannot be used; names them


@dataclass(frozen=True)
class Record:
    """One image of a collection.

    image_id: stable name; the content hash, followed by "-2", "-3", ... for duplicates.
    content_hash: 32 hexadecimal digits of the pixels.
    source: absolute path, or address, the image was read from.
    source_stamp: changes when the file does (size and modification time); empty if unknown.
    patient_key: keyed hash of the patient's identifier, never the identifier itself; None if unknown.
    sop_class: SOP Class UID; empty if unknown, as in images that an older version indexed.
    labels: free keys and values, for instance {"label": "knee", "modality": "CR"}.
    study_day: day of the study, to be compared with those of the patient's other studies alone; see `study_day`.
    slice_place: text of the `SlicePlace` in its series; empty if unknown, as in images that an older version indexed.
    """

    content_hash: str
    source: str
    source_stamp: str
    format: str
    width: int
    height: int
    frame: int | None = None
    study: str = ""
    series: str = ""
    instance: str = ""
    burned_in: bool = False
    patient_key: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    image_id: str = ""
    sop_class: str = ""
    study_day: int | None = None
    slice_place: str = ""


Entry = tuple[Record, NDArray[np.float32]]  # a record and its raw vector (d,)


def hash_patient(secret: bytes, patient: str) -> str | None:
    """Return the key of a `patient`, 32 hexadecimal digits: BLAKE2b keyed with the collection's `secret`."""
    if not patient.strip():
        return None
    return hashlib.blake2b(patient.strip().encode(), key=secret, digest_size=16).hexdigest()


def describe_record(
    image: Image, *, source: str, source_stamp: str, secret: bytes, study_days: bool = True
) -> Record:
    """Return the record of a decoded image: DICOM attributes become labels, the patient's identifier a key.

    Parameters
    ----------
    image : Image
        Decoded image.
    source : str
        Absolute path, or address, of its file.
    source_stamp : str
        Stamp of the file.
    secret : bytes
        Key of the collection.
    study_days : bool
        Keep the days of studies and of acquisitions, to be compared with others of the patient alone.
    """
    header = image.dicom or DicomHeader()
    dated = header.patient_id if study_days else ""
    attributes = {
        "modality": header.modality,
        "body_part": header.body_part,
        "view_position": header.view_position,
        "laterality": header.laterality,
        "photometric": header.photometric,
        "secondary_capture": "yes" if header.secondary_capture else "",
        UNUSABLE_LABEL: "+".join(image.unusable),
    }
    return Record(
        content_hash=image.content_hash,
        source=source,
        source_stamp=source_stamp,
        format=image.format,
        width=image.width,
        height=image.height,
        frame=image.frame,
        study=header.study,
        series=header.series,
        instance=header.instance,
        burned_in=header.burned_in,
        patient_key=hash_patient(secret, header.patient_id),
        labels={key: value for key, value in attributes.items() if value} | person_labels(header),
        sop_class=header.sop_class,
        study_day=relative_day(secret, dated, header.study_date),
        slice_place=""
        if image.location is None
        else stored_place(secret, dated, header.series, image.location),
    )


def person_labels(header: DicomHeader) -> dict[str, str]:
    """Return the labels that say of whom and of what a series is, without who it is."""
    facts = dict(zip(PERSON_LABELS, (header.age, header.sex, header.series_description), strict=True))
    return {key: value for key, value in facts.items() if value}


def add_labels(record: Record, row: dict[str, str], secret: bytes) -> Record:
    """Return the record with a manifest's row added.

    Parameters
    ----------
    record : Record
        Record of the image.
    row : dict
        Values by column: `patient` becomes the patient key, `study_day` the day of the study, every other column a
        label.
    secret : bytes
        Key of the collection.
    """
    free = {key: value for key, value in row.items() if value and key not in ("patient", *RESERVED)}
    patient_key = hash_patient(secret, row.get("patient", "")) or record.patient_key
    day = record.study_day if patient_key == record.patient_key else None  # counted for the header's patient
    if text := row.get(STUDY_DAY):
        day = parse_day(text)
    return replace(record, labels=record.labels | free, patient_key=patient_key, study_day=day)


def stored_labels(record: Record) -> dict[str, str]:
    """Return what the table `labels` has of an image: its labels, the day of its study and its place if known."""
    day = {} if record.study_day is None else {STUDY_DAY: str(record.study_day)}
    return record.labels | day | ({SLICE_PLACE: record.slice_place} if record.slice_place else {})


def table_header(columns: Sequence[str], keys: Sequence[str]) -> list[Any]:
    """Return the names of `columns`, fields of records, and of labels; `label:KEY` where a field has the name."""
    return [harmless_cell(name) for name in (*columns, *(f"label:{k}" if k in columns else k for k in keys))]


def table_row(record: Record, columns: Sequence[str], keys: Sequence[str]) -> list[Any]:
    """Return the values of a record for `table_header`; a cell that a spreadsheet would run gets an apostrophe."""
    values = [getattr(record, column) for column in columns]
    return [harmless_cell(value) for value in (*values, *(record.labels.get(key, "") for key in keys))]
