"""Facts of a DICOM header: a frame's place in its series, age, sex and description, and the patient's identifier."""

import math
import re
import unicodedata
from collections.abc import Iterator
from datetime import date, datetime
from functools import cache
from operator import mul
from pathlib import Path

import numpy as np
import pydicom
from pydicom.datadict import dictionary_VR, tag_for_keyword
from pydicom.dataelem import RawDataElement
from pydicom.dataset import Dataset
from pydicom.multival import MultiValue
from pydicom.tag import BaseTag, Tag

from cbir.images.grey_transforms import functional_groups
from cbir.images.slice_order import DAY, SlicePlace, finite_vector

TEXTS = ("AS", "CS", "DA", "DS", "DT", "IS", "LO", "PN", "SH", "TM", "UI")  # PS3.5, 6.2

SEPARATOR = "\\"  # of values

ESCAPE = b"\x1b"  # to another character set (PS3.5, 6.1.2.5)


def attribute_text(dataset: Dataset, keyword: str) -> str:
    """Return the value of an attribute as a text, values with SEPARATOR between them; "" if absent or damaged.

    ASCII values of a file are taken as they are: pydicom takes several times as long to convert numbers and names.
    """
    try:
        tag, is_text = _tag_and_kind(keyword)
        element = dataset.get_item(tag)
        if element is None:
            return ""
        if is_text and isinstance(element, RawDataElement) and element.VR in (None, *TEXTS):
            content = element.value or b""
            if content.isascii() and ESCAPE not in content:
                return content.decode("ascii").strip(" \0")
        value = dataset[tag].value
    except Exception:  # one bad element is no reason to refuse the image
        return ""
    values = value if isinstance(value, (MultiValue, list, tuple)) else [value]
    return SEPARATOR.join("" if each is None else str(each) for each in values).strip()


def as_utf8(text: str) -> str:
    """Return a text that was read as Latin-1, but is UTF-8, as that: many files do not declare it."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


@cache
def _tag_and_kind(keyword: str) -> tuple[BaseTag, bool]:
    """Return the tag of an attribute, and whether its values are texts."""
    tag = Tag(tag_for_keyword(keyword) or keyword)
    return tag, dictionary_VR(tag) in TEXTS


GROUPS = "PerFrameFunctionalGroupsSequence", "SharedFunctionalGroupsSequence"

MACROS = (
    "PlanePositionSequence", "PlaneOrientationSequence", "FrameContentSequence", "CardiacSynchronizationSequence",
)  # fmt: skip

ANATOMY, VIEW = "FrameAnatomySequence", "ViewCodeSequence"

LARGEST = 2**31  # IS (PS3.5, 6.2)

TIME = re.compile(r"(\d\d):?(\d\d)?:?(\d\d)?(?:\.(\d{1,6}))?")


def read_slice_place(dataset: Dataset, index: int = 0) -> SlicePlace:
    """Return the place of frame `index` of a data set; what is damaged counts as absent."""
    plane, turned, content, cardiac = _groups(dataset, index)
    orientation = finite_vector(_values(turned, "ImageOrientationPatient"), 6, 5)
    orientation = orientation if orientation is not None and _is_rotation(orientation) else None
    position = finite_vector(_values(plane, "ImagePositionPatient"), 3, 3)
    if position and orientation and "GridFrameOffsetVector" in dataset:
        position = _dose_position(_values(dataset, "GridFrameOffsetVector"), index, position, orientation)
    return SlicePlace(
        position=position,
        orientation=orientation,
        instance=_integer(dataset, "InstanceNumber"),
        acquisition=_integer(content, "FrameAcquisitionNumber", "AcquisitionNumber"),
        time=_acquisition_time(content),
        temporal=_integer(content, "TemporalPositionIndex", "TemporalPositionIdentifier"),
        trigger=_first(cardiac, "NominalCardiacTriggerDelayTime", "TriggerTime"),
    )


def _dose_position(
    offsets: list[str], index: int, first: tuple[float, ...], orientation: tuple[float, ...]
) -> tuple[float, ...] | None:
    """Return the position of a dose plane from that of the `first` (PS3.3, C.8.8.3.2).

    The offsets are along the normal from there, or, where they begin with another number than 0, z coordinates.
    """
    try:
        start, offset = float(offsets[0]), float(offsets[index])
    except (IndexError, ValueError):
        return None
    if start:
        return finite_vector((*first[:2], offset), 3, 3)
    normal = np.cross(orientation[:3], orientation[3:])
    return finite_vector(first + offset * normal / np.linalg.norm(normal), 3, 3)


def _groups(dataset: Dataset, index: int) -> list[Dataset]:
    """Return the items of the MACROS that apply to a frame; the data set itself for those that it lacks."""
    try:
        if not any(keyword in dataset for keyword in GROUPS):
            return [dataset] * len(MACROS)
        return [next(functional_groups(dataset, index, macro), dataset) for macro in MACROS]
    except Exception:  # pydicom raises many kinds for damaged sequences
        return [dataset] * len(MACROS)


def _values(dataset: Dataset, keyword: str) -> list[str]:
    return attribute_text(dataset, keyword).split(SEPARATOR)


def _is_rotation(cosines: tuple[float, ...]) -> bool:
    """Return whether six direction cosines are of two directions at right angles."""
    across, down = cosines[:3], cosines[3:]
    lengths = math.hypot(*across), math.hypot(*down)
    return all(abs(length - 1) < 0.01 for length in lengths) and abs(sum(map(mul, across, down))) < 0.01


def _first(dataset: Dataset, *keywords: str) -> float | None:
    for keyword in keywords:
        try:
            number = float(_values(dataset, keyword)[0])
        except ValueError:
            continue
        if abs(number) < LARGEST:  # which no NaN is
            return number
    return None


def _integer(dataset: Dataset, *keywords: str) -> int | None:
    number = _first(dataset, *keywords)
    return None if number is None else int(number)


def _acquisition_time(dataset: Dataset) -> int | None:
    """Return the time of an acquisition from DT, or DA and TM values (PS3.5, 6.2)."""
    for keyword in ("FrameAcquisitionDateTime", "AcquisitionDateTime", ""):
        names = (keyword,) if keyword else ("AcquisitionDate", "AcquisitionTime")
        texts = [attribute_text(dataset, name) for name in names]
        day, clock = texts if len(texts) == 2 else (texts[0][:8], texts[0][8:])
        if match := TIME.match(clock):
            hours, minutes, seconds, fraction = match.groups()
            seconds_of_day = (int(hours) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
            return _days(day) * DAY + (seconds_of_day * 1000 + int((fraction or "0").ljust(3, "0")[:3])) % DAY
    return None


def _days(text: str) -> int:
    """Return the number of a day since the year 1; 0 for a text that is no date, YYYYMMDD."""
    try:
        return datetime.strptime(text, "%Y%m%d").toordinal()
    except ValueError:
        return 0


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

    By a date, a long number, an age of OLDEST and above, or a part of a name or of an identifier. What is not in the
    declared character set cannot be compared, and may tell it too.
    """
    read = as_utf8(first_text(dataset, "SeriesDescription"))
    text = " ".join(read.split())
    if not text or DATE.search(text) or any(map(_is_undecoded, read)) or _names_undecoded(text, dataset):
        return ""
    plain = _plain(text)
    words = set(_words(plain))
    has_name = any(_tells(plain, words, part, LEAST_NAME) for part in _parts_of_names(dataset))
    identifiers = (
        part for keyword in IDENTIFIERS for part in _words(_plain(as_utf8(attribute_text(dataset, keyword))))
    )
    return (
        "" if has_name or any(_tells(plain, words, part, LEAST_IDENTIFIER) for part in identifiers) else text
    )


def _is_undecoded(character: str) -> bool:
    """Return whether a character is none of a text: a control character, or one that decoders put for others."""
    return character == "\ufffd" or unicodedata.category(character).startswith("C")


def _names_undecoded(text: str, dataset: Dataset) -> bool:
    """Return whether a text has a component of a name as it is, which may be letters read as punctuation."""
    names = (part for name in _names(dataset) for part in name.casefold().split("^")[:NAME_COMPONENTS])
    return any(
        len(name) >= LEAST_NAME and not name.isascii() and name in text.casefold()
        for name in map(str.strip, names)
    )


def _parts_of_names(dataset: Dataset) -> Iterator[str]:
    for name in _names(dataset):
        yield from _words(_plain(" ".join(name.split("^")[:NAME_COMPONENTS])))


def _names(dataset: Dataset) -> Iterator[str]:
    for keyword in NAMES:
        yield from re.split(r"[\\=]", as_utf8(attribute_text(dataset, keyword)))


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


SIDES = ("R", "L", "B")

VIEWS = {  # codes of SNOMED CT, and their former ones: PS3.16, CID 4014; terms of PS3.3, C.8.11.7
    "399260004": "ML", "399368009": "MLO", "399352003": "LM", "399099002": "LMO", "399162004": "CC",
    "399196006": "FB", "399188001": "SIO", "441555000": "ISO", "399192008": "XCCL", "399101009": "XCCM",
    "R-10224": "ML", "R-10226": "MLO", "R-10228": "LM", "R-10230": "LMO", "R-10242": "CC",
    "R-10244": "FB", "R-102D0": "SIO", "R-40AAA": "ISO", "R-1024A": "XCCL", "R-1024B": "XCCM",
}  # fmt: skip


def laterality(dataset: Dataset) -> str:
    """Return the side of an image, of enhanced objects that of the first frame's anatomy; "" if unknown."""
    if of_image := first_text(dataset, "ImageLaterality") or first_text(dataset, "Laterality"):
        return of_image
    sides = (first_text(anatomy, "FrameLaterality").upper() for anatomy in _macros(dataset, ANATOMY))
    return next((side for side in sides if side in SIDES), "")


def view_position(dataset: Dataset) -> str:
    """Return the view of an image, as a term also where a mammogram has a code of it alone; "" if unknown."""
    if text := first_text(dataset, "ViewPosition"):
        return text
    views = [view for item in (dataset, *_macros(dataset, ANATOMY)) for view in _items(item, VIEW)]
    codes = (first_text(view, "CodeValue") for view in (*views, *_macros(dataset, VIEW)))
    return next((VIEWS[code] for code in codes if code in VIEWS), "")


def _macros(dataset: Dataset, macro: str) -> list[Dataset]:
    """Return the macros of the first frame; none of damaged sequences."""
    try:
        return list(functional_groups(dataset, 0, macro))
    except Exception:  # as in `_groups`
        return []


def _items(dataset: Dataset, keyword: str) -> list[Dataset]:
    try:
        return list(dataset.get(keyword) or ())
    except Exception:  # as above
        return []


def read_patient_id(path: Path) -> str:
    """Return the patient's identifier of a DICOM file; "" without one, or if the file cannot be read."""
    try:
        dataset = pydicom.dcmread(path, stop_before_pixels=True, specific_tags=["PatientID"], force=True)
        return str(dataset.get("PatientID") or "").strip()
    except Exception:  # damaged files raise anything, and messages may quote patient data
        return ""
