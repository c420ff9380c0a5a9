"""Filters of Milvus: what an image has as whole numbers, its tokens, and a scope as a boolean expression over them.

A token is the digest of an attribute or of a label, so no text reaches an expression, and none is too long.
"""

import hashlib
import math
from collections.abc import Iterable
from functools import lru_cache

from cbir.store.index.port import IndexedImage, IndexScope
from cbir.store.records.dicom_instances import DicomScope
from cbir.store.records.filter_conditions import ABSENT, COMPARISONS, PRESENT, Condition
from cbir.store.records.patient_scope import PatientScope

ATTRIBUTES = ("content_hash", "patient_key", "study", "series", "instance")
DICOM = "dicom"  # attribute of an image that is a DICOM instance
NOTHING = "number < 0"
LARGEST = 1.7976931348623157e308  # finite number
LABELS_IN_MEMORY = 65_536  # tokens of labels


def image_tokens(image: IndexedImage) -> list[int]:
    """Return the tokens of the attributes and labels of an image, ascending."""
    tokens = {attribute_token(name, value) for name in ATTRIBUTES if (value := getattr(image, name))}
    if image.instance:
        tokens.add(attribute_token(DICOM))
    for key, value in image.labels.items():
        tokens |= {label_token(key), label_token(key, value)}
    return sorted(tokens)


def attribute_token(name: str, value: str = "") -> int:
    """Return the token of an attribute."""
    return _digest(f"{name}:{value}")


@lru_cache(LABELS_IN_MEMORY)
def label_token(key: str, value: str | None = None) -> int:
    """Return the token of a label, or of all labels with a key."""
    return _digest(f"label {len(key)}:{key}" if value is None else f"label {len(key)}:{key}={value}")


def number_key(key: str) -> str:
    """Return the name by which a label's number is stored."""
    return f"n{label_token(key)}"


def scope_expression(scope: IndexScope) -> str:
    """Return the expression of the images in a scope; "" for all."""
    parts = [_condition(condition) for condition in scope.where]
    parts += [_patient(patient) for patient in scope.of_patients]
    if without := list(filter(None, scope.without_patients)):
        parts.append(_without("patient_key", without))
    if scope.without_contents:
        parts.append(_without("content_hash", scope.without_contents))
    if scope.outside:
        parts.append(_outside(scope.outside))
    return " and ".join(f"({part})" for part in parts)


def _condition(condition: Condition) -> str:
    key = condition.key
    if condition.operator == PRESENT:
        return _any([label_token(key)])
    if condition.operator == ABSENT:
        return f"not {_any([label_token(key)])}"
    if condition.operator == "=":
        return _any(label_token(key, value) for value in condition.values)
    if condition.operator == "!=":
        return f"not {_any([label_token(key, condition.value)])}"
    return _comparison(f'numbers["{number_key(key)}"]', condition)


def _comparison(number: str, condition: Condition) -> str:
    """Return a comparison as a number; Milvus has no literal for infinity, beyond which no stored number is."""
    value = float(condition.value)
    if math.isfinite(value):
        return f"{number} {condition.operator} {value!r}"
    every = not math.isnan(value) and COMPARISONS[condition.operator](0.0, value)
    return f"{number} <= {LARGEST!r}" if every else NOTHING


def _patient(patient: PatientScope) -> str:
    if not patient.key:
        return NOTHING
    own = _any([attribute_token("patient_key", patient.key)])
    return f"{own} and {_without('study', [patient.besides])}" if patient.besides else own


def _outside(outside: DicomScope) -> str:
    dicom = _any([attribute_token(DICOM)])
    if not outside.study:
        return dicom
    fields = {"study": outside.study, "series": outside.series, "instance": outside.instance}
    inside = " and ".join(_any([attribute_token(name, uid)]) for name, uid in fields.items() if uid)
    return f"{dicom} and not ({inside})"


def _without(name: str, values: Iterable[str]) -> str:
    return f"not {_any(attribute_token(name, value) for value in values)}"


def _any(tokens: Iterable[int]) -> str:
    return f"array_contains_any(tokens, {list(tokens)})"


def _digest(text: str) -> int:
    """Return a digest of 63 bits, since literals have no sign."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
