"""Age, sex and series description of a DICOM data set, without what tells who the patient is."""

import re
import unicodedata
from collections.abc import Iterator
from datetime import date, datetime

from pydicom.dataset import Dataset

from cbir.images.dicom_text import SEPARATOR, attribute_text

LONGEST = 64  # characters of a header value, the maximum of VR LO and UI
OLDEST = 90  # years; stands for this age and all above (HIPAA's safe harbour, 45 CFR 164.514(b)(2)(i)(C))
YEARS_PER = {"Y": 1, "M": 12, "W": 52, "D": 365}
AGE = re.compile(r"(\d{1,3})([DWMY])")
MONTHS = "jan|feb|m[aä]r|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz]"
# Dates, long numbers, and ages that OLDEST stands for.
DATE = re.compile(
    r"\d{6,}|\d{1,4}[./-]\d{1,2}[./-]\d{2,4}|\d{1,2} \d{1,2} \d{4}|\d{4} \d{1,2} \d{1,2}"
    rf"|\d[. -]*(?:{MONTHS})[a-z]*[. -]*\d{{2}}|\b(?:{MONTHS})[a-z]*[. ]*\d{{1,2}}[., ]+\d{{4}}"
    r"|\b(?:9\d|1[01]\d)[ -]*(?:y|y/?o|yrs?|years?|jahre?|ans|años)\b",
    re.IGNORECASE,
)
NAMES = (
    "PatientName", "OtherPatientNames", "PatientBirthName", "PatientMotherBirthName", "ResponsiblePerson",
    "ReferringPhysicianName", "PerformingPhysicianName", "RequestingPhysician", "NameOfPhysiciansReadingStudy",
    "OperatorsName",
)  # fmt: skip
IDENTIFIERS = ("PatientID", "OtherPatientIDs", "AccessionNumber")
NAME_COMPONENTS = 3  # of a name that are names: family, given and middle; prefix and suffix follow
LEAST_NAME, LEAST_IDENTIFIER = 2, 3  # characters of a part that may be no word of a description
LEAST_INSIDE = 4  # of a part that may not be in one of its words either


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
    """Return the description of the series; "" if it may tell who the patient is.

    By a date, a long number, an age of OLDEST and above, or a part of a name or of an identifier.
    """
    text = " ".join(first_text(dataset, "SeriesDescription").split())
    if not text or DATE.search(text):
        return ""
    plain = _plain(text)
    words = set(_words(plain))
    named = any(_tells(plain, words, part, LEAST_NAME) for part in _parts_of_names(dataset))
    identifiers = (
        part for keyword in IDENTIFIERS for part in _words(_plain(attribute_text(dataset, keyword)))
    )
    return "" if named or any(_tells(plain, words, part, LEAST_IDENTIFIER) for part in identifiers) else text


def _parts_of_names(dataset: Dataset) -> Iterator[str]:
    for keyword in NAMES:
        for name in re.split(r"[\\=]", attribute_text(dataset, keyword)):
            yield from _words(_plain(" ".join(name.split("^")[:NAME_COMPONENTS])))


def _tells(text: str, words: set[str], part: str, least: int) -> bool:
    """Return whether a text names a part of a name or identifier; scripts without spaces have it inside."""
    return (part in words and len(part) >= least) or (
        part in text and (len(part) >= LEAST_INSIDE or not part.isascii())
    )


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.replace("_", " "))


def _plain(text: str) -> str:
    """Return a text without case and accents."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))


def _day(text: str) -> date | None:
    try:
        return datetime.strptime(text, "%Y%m%d").date()
    except ValueError:
        return None
