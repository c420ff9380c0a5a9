"""Age, sex and series description of a DICOM data set, without what tells who the patient is."""

import re
from datetime import date, datetime

from pydicom.dataset import Dataset

from cbir.images.dicom_text import SEPARATOR, attribute_text

LONGEST = 64  # characters of a header value, the maximum of VR LO and UI
OLDEST = 90  # years; stands for this age and all above (HIPAA's safe harbour, 45 CFR 164.514(b)(2)(i)(C))
YEARS_PER = {"Y": 1, "M": 12, "W": 52, "D": 365}
AGE = re.compile(r"(\d{1,3})([DWMY])")
DATE = re.compile(r"\d{6,}|\d{1,4}[./-]\d{1,2}[./-]\d{2,4}")  # also long numbers
IDENTITY = ("PatientName", "PatientID", "OtherPatientIDs", "AccessionNumber", "ReferringPhysicianName")
LEAST_PART = 3  # characters of a part of a name that a description may not contain


def first_text(dataset: Dataset, keyword: str) -> str:
    """Return the first value of an attribute, "" if it is absent or cannot be read."""
    return attribute_text(dataset, keyword).partition(SEPARATOR)[0].strip()[:LONGEST]


def patient_age(dataset: Dataset) -> str:
    """Return the patient's age at the study in whole years, OLDEST for that and above; "" if unknown."""
    if match := AGE.fullmatch(first_text(dataset, "PatientAge")):
        years = int(match[1]) // YEARS_PER[match[2]]
    else:
        born, examined = (_day(first_text(dataset, name)) for name in ("PatientBirthDate", "StudyDate"))
        if born is None or examined is None or examined < born:
            return ""
        years = examined.year - born.year - ((examined.month, examined.day) < (born.month, born.day))
    return str(min(years, OLDEST))


def patient_sex(dataset: Dataset) -> str:
    """Return M, F or O; "" if unknown."""
    sex = first_text(dataset, "PatientSex").upper()
    return sex if sex in ("M", "F", "O") else ""


def series_description(dataset: Dataset) -> str:
    """Return the description of the series; "" if it has a date, a long number, or a part of the patient's name."""
    text = " ".join(first_text(dataset, "SeriesDescription").split())
    if not text or DATE.search(text):
        return ""
    words = set(re.findall(r"\w+", text.casefold().replace("_", " ")))
    for keyword in IDENTITY:
        parts = re.findall(r"\w+", first_text(dataset, keyword).casefold().replace("_", " "))
        if any(len(part) >= LEAST_PART and part in words for part in parts):
            return ""
    return text


def _day(text: str) -> date | None:
    try:
        return datetime.strptime(text, "%Y%m%d").date()
    except ValueError:
        return None
