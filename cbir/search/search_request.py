"""Parameters of a search."""

from typing import Any

from pydantic import BaseModel, Field

from cbir.search.search_models import Examples, Judgements
from cbir.store.dicom_instances import DicomScope


class Request(BaseModel):
    """Parameters of a search beside the query image.

    k: number of hits. rerank: name of a re-ranker, None for the settings' one; parameters: of the re-ranker,
    where they differ from the profile's. where: conditions such as "modality=CT", all of which must hold.
    exclude_patient: a patient key or the identifier behind it, whose images are left out; exclude_patient_key: a key
    only, for callers who may not try identifiers.
    outside: only DICOM images are answers, and none of this study, series or instance.
    examples: ids of further examples, all left out of the answer. feedback: judgements of images. With either of
    them the methods of `cbir.rerank.several_examples` learn the order, and "auto" is `feedback`.
    """

    k: int = Field(20, ge=1)
    rerank: str | None = None
    parameters: dict[str, Any] = {}
    where: list[str] = []
    exclude_patient: str | None = None
    exclude_patient_key: str | None = None
    outside: DicomScope | None = None
    examples: Examples = []
    feedback: Judgements = []
