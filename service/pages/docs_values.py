"""Ids and names of what the caller may see, which replace those of the examples on the page /docs."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from cbir.errors import CbirError
from cbir.search import example_values as example
from cbir.store import DatabaseError, Record
from cbir.store.upkeep.quarantine_release import read_quarantined
from cbir.system.access_rights import Scope
from service.access.caller import current_rights, has_admin_rights
from service.collections.app_state import AppState
from service.pages.docs_lines import FOLDER, feature_lines

LOOKED_AT = 50  # images that are searched for one with UIDs
LABEL, LABEL_VALUE = "modality", "CT"  # of examples


def known_values(state: AppState) -> dict[str, str]:
    """Return values of what the caller may see by those of the examples; {} where there is nothing."""
    rights = current_rights()
    if rights is None or not rights.allows(Scope.search):
        return {}
    try:
        records = [record for _, record in state.searcher().collection.page(0, LOOKED_AT, [])]
    except (CbirError, DatabaseError):
        return {}
    values = _of_images(records) | _of_labels(records)
    with suppress(CbirError, DatabaseError):
        for lines in feature_lines():
            values |= lines.known_values()
    if rights.allows(Scope.ingest):
        jobs = [job.job for job in state.jobs.all() if job.collection in state.visible_names()]
        values |= _first(example.JOB, jobs)
    if has_admin_rights():
        values |= _first(FOLDER, map(str, state.settings.index_roots))
        values |= _of_quarantine(state) if not rights.limited else {}
    return values


def _of_images(records: Sequence[Record]) -> dict[str, str]:
    if not records:
        return {}
    values = {example.IMAGE_ID: records[0].image_id, example.OTHER_IMAGE_ID: records[-1].image_id}
    dicom = next((record for record in records if record.instance), None)
    if dicom:
        values |= {
            example.STUDY_UID: dicom.study,
            example.SERIES_UID: dicom.series,
            example.INSTANCE_UID: dicom.instance,
        }
    return values


def _of_labels(records: Iterable[Record]) -> dict[str, str]:
    """Return another label for that of the examples, where no image has it."""
    labels: dict[str, str] = {}
    for record in records:
        labels = record.labels | labels
    if not labels or LABEL in labels:
        return {}
    key, value = next(iter(labels.items()))
    return {f"{LABEL}={LABEL_VALUE}": f"{key}={value}", LABEL: key}


def _of_quarantine(state: AppState) -> dict[str, str]:
    with suppress(CbirError, DatabaseError):
        images = read_quarantined(state.handle(None).whole_searcher().collection, limit=1)
        return _first(example.QUARANTINED_ID, [image.image_id for image in images])
    return {}


def _first(placeholder: str, values: Iterable[str]) -> dict[str, str]:
    """Return the first of `values` by what it replaces, {} without any."""
    value = next(iter(values), None)
    return {} if value is None else {placeholder: value}
