"""Texts of DICOM attributes, read without converting them where that is not needed."""

from functools import cache

from pydicom.datadict import dictionary_VR, tag_for_keyword
from pydicom.dataelem import RawDataElement
from pydicom.dataset import Dataset
from pydicom.multival import MultiValue
from pydicom.tag import BaseTag, Tag

TEXTS = ("AS", "CS", "DA", "DS", "DT", "IS", "LO", "PN", "SH", "TM", "UI")  # PS3.5, 6.2
SEPARATOR = "\\"  # of values


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
            if content.isascii():
                return content.decode("ascii").strip(" \0")
        value = dataset[tag].value
    except Exception:  # one bad element is no reason to refuse the image
        return ""
    values = value if isinstance(value, (MultiValue, list, tuple)) else [value]
    return SEPARATOR.join("" if each is None else str(each) for each in values).strip()


@cache
def _tag_and_kind(keyword: str) -> tuple[BaseTag, bool]:
    """Return the tag of an attribute, and whether its values are texts."""
    tag = Tag(tag_for_keyword(keyword) or keyword)
    return tag, dictionary_VR(tag) in TEXTS
