"""Parameters of a search."""

from typing import Any

from pydantic import BaseModel, Field

from cbir.search.search_models import MAX_GROUP_SIZE, Examples, Judgements
from cbir.store.records.dicom_instances import DicomScope
from cbir.store.records.filter_conditions import PatientScope


class Request(BaseModel):
    """Parameters of a search beside the query image.

    k: number of hits, or of groups of them. rerank: name of a re-ranker, None for the settings' one; parameters: of
    the re-ranker, where they differ from the profile's. where: conditions such as "modality=CT", all of which must
    hold, but of several values of one key any.
    score_threshold, max_distance: lowest score and largest distance of a hit. Distances are comparable between
    queries of a collection, scores are not.
    group_by: "patient", "study", "series" or the key of a label, which may begin with "label:" so that it is not
    taken for one of those; at most `group_size` hits have the same one, and k groups are returned.
    exclude_patient: a patient key or the identifier behind it, whose images are left out; exclude_patient_key: a key
    only, for callers who may not try identifiers.
    outside: only DICOM images are answers, and none of this study, series or instance.
    same_patient: only images of the query's patient are answers, without those of its own study; of_patient: these
    images, where the caller knows them and the query image does not tell.
    examples: ids of further examples, all left out of the answer. feedback: judgements of images. With either of
    them the methods of `cbir.rerank.several_examples` learn the order, and "auto" is `feedback`.
    label_bytes: once the best hits have more bytes of labels, those of the others are not read; None for all.
    """

    k: int = Field(default=20, ge=1)
    rerank: str | None = None
    parameters: dict[str, Any] = {}
    where: list[str] = []
    exclude_patient: str | None = None
    exclude_patient_key: str | None = None
    outside: DicomScope | None = None
    same_patient: bool = False
    of_patient: PatientScope | None = None
    examples: Examples = []
    feedback: Judgements = []
    score_threshold: float | None = Field(default=None, allow_inf_nan=False)
    max_distance: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    group_by: str | None = Field(default=None, min_length=1)
    group_size: int = Field(default=1, ge=1, le=MAX_GROUP_SIZE)
    label_bytes: int | None = None
