"""Record of an image: everything a collection stores of it besides its vector."""

import hashlib
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cbir.images import DicomHeader, Image
from cbir.store.base.reserved_labels import RESERVED
from cbir.store.base.stored_place import SLICE_PLACE, stored_place
from cbir.store.base.study_day import STUDY_DAY, parse_day, relative_day

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
