"""Attributes of a DICOM file that may identify a person: PS3.15, table E.1-1, basic profile, and what texts say."""

import re
from collections.abc import Iterator
from functools import cache

from pydicom.charset import convert_encodings, decode_bytes
from pydicom.dataelem import DataElement
from pydicom.dataset import Dataset
from pydicom.multival import MultiValue
from pydicom.valuerep import TEXT_VR_DELIMS

from cbir.errors import InvalidInput
from cbir.images.dicom_facts import as_utf8
from cbir.system.remedies import install_command
from service.features.audit.privacy_texts import Identity, Sign, form_of, is_dummy, patient_identity

EDITION = "dicomfields_2026c"  # of table E.1-1, in the package dicom-anonymizer
OTHER_LISTS = ("ALL_TAGS", "U_TAGS", "X_Z_U_STAR_TAGS")  # not read: all of them, and UIDs
TEXTS = ("LO", "LT", "PN", "SH", "ST", "UC", "UN", "UT")
PSEUDONYMS = (
    "PatientID",
    "AccessionNumber",
    "StudyID",
)  # may have new values in a file whose patient was removed
MODIFIED_DATES = ("MODIFIED", "REMOVED")
SAFE_PRIVATE = "113111"  # code of the option to retain safe private attributes (PS3.16, CID 7050)
LONGEST = 10_000  # characters of a text that is looked at
DEEPEST = 8  # sequences in sequences
LEAST_NUMBER = 3  # characters of a number that is not the patient's
OLDEST = 89  # years that need not be hidden
ADDRESS = re.compile(r"Institution|Department|Address|Residence|Region|Country|Location|Telephone")
DEVICE = re.compile(r"^(?:Device|Detector|Gantry|Plate|Cassette|Station|Generator)|SerialNumber|StationName")
NUMBER = re.compile(r"(?:IDs?|Number|Identifier|Locator)$")


@cache
def profile_tags() -> frozenset[int]:
    """Return the attributes that the basic profile empties, replaces or removes, UIDs excepted.

    Raises InvalidInput with the remedy without the package that has the table.
    """
    try:
        from dicomanonymizer.dicomfields_selector import dicom_anonymization_database_selector
    except ModuleNotFoundError:
        remedy = install_command("privacy")
        raise InvalidInput(f"the privacy check needs dicom-anonymizer 2.1 or later: {remedy}") from None
    table = dicom_anonymization_database_selector(EDITION)
    tags = (tag for action, tags in table.items() if action not in OTHER_LISTS for tag in tags)
    return frozenset(group << 16 | element for group, element, *mask in tags if not mask)


def read_identity(dataset: Dataset, key: str | None = None, secret: bytes = b"") -> Identity:
    """Return the patient of a data set. key: the record's patient key; secret: the collection's key."""
    name, number = _text(dataset, "PatientName"), _text(dataset, "PatientID")
    name = "" if name == number else name  # a pseudonym
    return patient_identity(name, number, key=key, secret=secret, is_pseudonym=is_declared(dataset))


def is_declared(dataset: Dataset) -> bool:
    """Return whether a data set says that its patient's identity was removed."""
    return _text(dataset, "PatientIdentityRemoved").upper() == "YES"


def check_tags(dataset: Dataset, identity: Identity) -> list[Sign]:
    """Return the signs of persons in a data set, the dates of examinations and the private attributes as one each.

    `identity`: of its patient. UIDs, times, and words about what was examined are no signs, unless they have the
    form of one or name the patient.
    """
    declared = is_declared(dataset)
    has_new_dates = _text(dataset, "LongitudinalTemporalInformationModified").upper() in MODIFIED_DATES
    encodings = convert_encodings(_text(dataset, "SpecificCharacterSet").split("\\"))
    signs, dates, private = list[Sign](), list[str](), set[int]()
    for path, element in _elements(dataset):
        if element.tag.is_private and not element.tag.is_private_creator:
            private.add(element.tag.group)
        sign = _sign_of(path, element, identity, declared, encodings)
        if sign is None:
            continue
        if sign.why == "date":
            dates.append(path)
        else:
            signs.append(sign)
    if dates and not has_new_dates:
        signs.append(Sign(" ".join(sorted(set(dates))), "date", "99999999"))
    if private and not (declared and SAFE_PRIVATE in _method_codes(dataset)):
        signs.append(Sign(" ".join(f"{group:04X}" for group in sorted(private)), "private"))
    if _text(dataset, "BurnedInAnnotation").upper() == "YES":
        signs.append(Sign("BurnedInAnnotation", "declared-text"))
    return signs


def _sign_of(
    path: str, element: DataElement, identity: Identity, declared: bool, encodings: list[str]
) -> Sign | None:
    """Return what an attribute says of a person; None if nothing."""
    if element.VR == "SQ" or element.tag.element == 0:
        return None
    if element.tag.group & 0xFF01 in (0x6000, 0x5000) and element.tag.element in (0x3000, 0x4000):
        return Sign(path, "overlay")
    value = _value(element, encodings)
    if not value.strip("^ ") or is_dummy(value):
        return None
    why = _why(element, value, declared) if int(element.tag) in profile_tags() else None
    if why is None and element.VR in TEXTS and element.keyword not in ("PatientName", "PatientID"):
        why = next((mention.why for mention in identity.mentions(value)), None)
        if why == "date" and int(element.tag) not in profile_tags() and not element.tag.is_private:
            why = None  # of software versions and the like
    return None if why is None else Sign(path, why, form_of(value))


def _why(element: DataElement, value: str, declared: bool) -> str | None:
    """Return why an attribute of the basic profile identifies a person by its kind; None for text to be read."""
    keyword = element.keyword
    if element.VR == "PN":
        return None if keyword == "PatientName" and declared and "^" not in value else "person"
    if element.VR in ("DA", "DT"):
        return "birth-date" if "Birth" in keyword else "date"
    if element.VR == "AS":
        years = value[:3] if value.endswith("Y") else ""
        return "age" if years.isdigit() and int(years) > OLDEST else None
    if element.VR not in TEXTS:
        return None
    if ADDRESS.search(keyword):
        return "phone" if "Telephone" in keyword else "place"
    if DEVICE.search(keyword):
        return None if declared else "device"
    if NUMBER.search(keyword) and any(map(str.isdigit, value)):
        if keyword != "PatientID" and len(value) < LEAST_NUMBER:
            return None  # counts studies
        return None if declared and keyword in PSEUDONYMS else "number"
    return None


def _elements(dataset: Dataset, path: str = "", depth: int = 0) -> Iterator[tuple[str, DataElement]]:
    """Yield the elements of a data set and of its sequences, each with its path; damaged ones are left out."""
    for tag in sorted(dataset.keys()):
        try:
            element = dataset[tag]
        except Exception:  # pydicom raises many kinds for damaged values
            continue
        name = path + (element.keyword or f"({tag.group:04X},{tag.element:04X})")
        yield name, element
        if element.VR == "SQ" and depth < DEEPEST:
            for item in element.value or ():
                yield from _elements(item, f"{name}.", depth + 1)


def _method_codes(dataset: Dataset) -> set[str]:
    items = dataset.get("DeidentificationMethodCodeSequence") or ()
    return {_text(item, "CodeValue") for item in items}


def _text(dataset: Dataset, keyword: str) -> str:
    try:
        value = dataset.get(keyword)
    except Exception:  # as above
        return ""
    values = value if isinstance(value, MultiValue) else [value]
    return "" if value is None else as_utf8("\\".join(map(str, values))).strip()


def _value(element: DataElement, encodings: list[str]) -> str:
    value = element.value
    if isinstance(value, bytes):
        value = _decoded(value[:LONGEST], encodings).strip("\0 ")
    elif element.VM > 1:
        value = "\\".join(map(str, value))
    return "" if value is None else as_utf8(str(value)[:LONGEST]).strip()


def _decoded(content: bytes, encodings: list[str]) -> str:
    """Return a text of unknown VR, in Latin-1 if it is not in the character sets of its data set."""
    text = decode_bytes(content, encodings, TEXT_VR_DELIMS)
    return content.decode("latin-1") if "\ufffd" in text else text
