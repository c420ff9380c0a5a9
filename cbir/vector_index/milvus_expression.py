"""Filters of Milvus: how texts are stored, and a scope as a boolean expression over the stored fields.

Stored texts consist of letters, digits and `_.-~%`, so no label can end a quotation.
"""

import hashlib
import math
from collections.abc import Iterable
from urllib.parse import quote

from cbir.store.dicom_instances import DicomScope
from cbir.store.filter_conditions import ABSENT, COMPARISONS, PRESENT, Condition
from cbir.store.patient_scope import PatientScope
from cbir.vector_index.port import IndexScope

LONGEST = 64  # characters of a stored text; UIDs and keys are no longer
NOTHING = "number < 0"
LARGEST = 1.7976931348623157e308  # finite number


def stored_text(text: str) -> str:
    """Return a text percent-encoded, or the digest of one that would be longer than LONGEST."""
    encoded = quote(text, safe="", errors="surrogatepass")
    if len(encoded) <= LONGEST:
        return encoded
    return "%%" + hashlib.blake2b(encoded.encode(), digest_size=30).hexdigest()


def scope_expression(scope: IndexScope) -> str:
    """Return the expression of the images in a scope; "" for all."""
    parts = [_condition(condition) for condition in scope.where]
    parts += [_patient(patient) for patient in scope.of_patients]
    if scope.without_patients:
        parts.append(f"not (patient_key in {_texts(filter(None, scope.without_patients))})")
    if scope.without_contents:
        parts.append(f"not (content_hash in {_texts(scope.without_contents)})")
    if scope.outside:
        parts.append(_outside(scope.outside))
    return " and ".join(f"({part})" for part in parts)


def _condition(condition: Condition) -> str:
    label = f'labels["{stored_text(condition.key)}"]'
    if condition.operator == PRESENT:
        return f"exists {label}"
    if condition.operator == ABSENT:
        return f"not (exists {label})"
    if condition.operator == "=":
        return f"{label} in {_texts(condition.values)}"
    if condition.operator == "!=":
        return f"not ({label} in {_texts([condition.value])})"
    return _comparison(f'label_numbers["{stored_text(condition.key)}"]', condition)


def _comparison(number: str, condition: Condition) -> str:
    """Return a comparison as a number; Milvus has no literal for infinity, beyond which no stored number is."""
    value = float(condition.value)
    if math.isfinite(value):
        return f"{number} {condition.operator} {value!r}"
    every = not math.isnan(value) and COMPARISONS[condition.operator](0.0, value)
    return f"{number} <= {LARGEST!r}" if every else NOTHING


def _patient(patient: PatientScope) -> str:
    if patient.key is None:
        return NOTHING
    key, besides = _texts([patient.key]), _texts([patient.besides])
    return f'patient_key in {key} and (study == "" or not (study in {besides}))'


def _outside(outside: DicomScope) -> str:
    if not outside.study:
        return 'instance != ""'
    fields = {"study": outside.study, "series": outside.series, "instance": outside.instance}
    inside = " and ".join(f"{name} in {_texts([uid])}" for name, uid in fields.items() if uid)
    return f'instance != "" and not ({inside})'


def _texts(texts: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{stored_text(text)}"' for text in texts) + "]"
