"""Request of a search: what every interface takes, and what callers inside decide."""

from typing import Any

from pydantic import Field

from cbir.search.search_options import SearchFields
from cbir.store.records.filter_conditions import DicomScope, PatientScope


class Request(SearchFields):
    """Parameters of a search beside the query image; `SearchFields` explains those that users send.

    parameters: of the re-ranker, where they differ from the profile's.
    exclude_patient_key: as `exclude_patient`, but a key only, for callers who may not try identifiers.
    outside: images of this study, series or instance are no answers, nor others that are not DICOM if it says so.
    without_patient_key: patient whose images are left out too.
    of_patient: with `same_patient` the images of the patient, where the caller knows them and the query image does
    not tell.
    label_bytes: once the best hits have more bytes of labels, those of the others are not read; None for all.
    """

    parameters: dict[str, Any] = Field(default={})
    exclude_patient_key: str | None = None
    outside: DicomScope | None = None
    without_patient_key: str | None = None
    of_patient: PatientScope | None = None
    label_bytes: int | None = None
