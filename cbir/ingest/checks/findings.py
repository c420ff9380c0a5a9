"""Findings of the intake check: words that the label `intake` lists."""

from collections.abc import Iterable
from dataclasses import replace

from cbir.store.records.records import FINDINGS_LABEL, Record

FINDINGS = {
    "text": "text is burned into the pixels",
    "blank": "the image shows nothing",
    "damaged": "a part of the image is missing or replaced",
    "inverted": "its negative looks more like the collection than it does",
    "modality": "it looks like images of another modality",
    "unlike": "nothing in the collection looks like it",
}
JOINED = "+"


def findings_of(record: Record) -> list[str]:
    """Return the findings in the label of a record, in the order of FINDINGS; unknown words are left out."""
    words = record.labels.get(FINDINGS_LABEL, "").split(JOINED)
    return [finding for finding in FINDINGS if finding in words]


def with_findings(record: Record, findings: Iterable[str]) -> Record:
    """Return the record with further findings in its label."""
    words = {*findings_of(record), *findings}
    if not words:
        return record
    value = JOINED.join(finding for finding in FINDINGS if finding in words)
    return replace(record, labels=record.labels | {FINDINGS_LABEL: value})
