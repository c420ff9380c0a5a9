"""What the service answers besides `cbir.search.Answer`: models of the service, its description and its client."""

from typing import Any

from pydantic import BaseModel

from cbir.grading.grade import Grade as Grade
from cbir.grading.grade import GradedNeighbour as GradedNeighbour
from cbir.search import Hit, Links, RerankFacts


class ImageRecord(BaseModel):
    """What a collection knows of an image, but for where it was read from.

    patient_key: keyed hash of the patient's identifier. frame: from 1, None for the only one. original: whether
    the file it was sent as is kept.
    """

    image_id: str
    content_hash: str
    format: str
    width: int
    height: int
    frame: int | None
    study: str
    series: str
    instance: str
    burned_in: bool
    patient_key: str | None
    labels: dict[str, str]
    original: bool
    links: Links


class SimilarPlace(BaseModel):
    """An instance, series or study that was found.

    rank from 1. score: of its images, combined. found: how often its images are in the lists of the query's images.
    series, instance: null above their level. best: its image with the greatest score; its rank is that in its list.
    """

    rank: int
    score: float
    found: int
    study: str
    series: str | None
    instance: str | None
    best: Hit


class SimilarQuery(BaseModel):
    """What was searched with. images: how many of its images, each of which brought a list of its own."""

    study: str
    series: str | None
    instance: str | None
    images: int


class SimilarAnswer(BaseModel):
    """A page of what is similar. total: how many there are on all pages."""

    query: SimilarQuery
    level: str
    combine: str
    exclude: str
    total: int
    results: list[SimilarPlace]
    rerank: RerankFacts
    timings_ms: dict[str, float]


class ImagePage(BaseModel):
    """Some of the images, in the order they came. next: the cursor of the following ones, None at the end."""

    items: list[ImageRecord]
    next: str | None


class AddedImage(BaseModel):
    """What became of one frame of one file sent.

    file: from 1, in the order sent. outcome: "added", "duplicate" (image_id shows the same picture), "deleted
    earlier" or "refused" (reason says why).
    """

    file: int
    frame: int | None = None
    outcome: str
    image_id: str | None = None
    reason: str | None = None


class AddedImages(BaseModel):
    """ids: of the images added, which are on the disk. images: what became of everything sent."""

    ids: list[str]
    images: list[AddedImage]


class LabelChange(BaseModel):
    """Labels to set; those that are null are taken away, others stay (RFC 7396)."""

    labels: dict[str, str | None]


class CollectionNames(BaseModel):
    """default: the collection that is meant where a request names none."""

    collections: list[str]
    default: str


class SnapshotFacts(BaseModel):
    """The derived index."""

    file: str
    generation: int
    images: int


class CollectionInfo(BaseModel):
    """What a collection holds and how it was made. generation: counts the transactions that changed it."""

    name: str
    images: int
    profile: str
    profile_hash: str
    descriptor: str
    weights: dict[str, float]
    rerank: dict[str, Any]
    generation: int
    format: int
    created: str
    statistics_fitted_on: int | None
    snapshot: SnapshotFacts | None
    labels: dict[str, int]
    bytes_on_disk: int


class ProfileInfo(BaseModel):
    """How images become vectors that may be compared; vectors of other hashes may not."""

    name: str
    hash: str
    descriptor: str
    dimensions: int
    parts: dict[str, int]
    normalisation: str
    weights: dict[str, float]
    metric: str
    rerank: dict[str, Any]


class Normalisation(BaseModel):
    """normalised = (raw - mean) * scale; fitted_on: the number of images they were learnt from."""

    fitted_on: int
    mean: list[float]
    scale: list[float]


class CollectionStatistics(BaseModel):
    """Counts of what there is. labels: for every key its most frequent values, at most 100.

    normalisation: None until enough images are there to learn it from.
    """

    images: int
    patients: int
    without_patient: int
    formats: dict[str, int]
    labels: dict[str, dict[str, int]]
    normalisation: Normalisation | None


class ChangeRecord(BaseModel):
    """One change. what: "added", "deleted", "labelled", "erased" or "profile". image_ids: the first 100."""

    change: int
    at: str
    who: str
    what: str
    images: int
    image_ids: list[str]


class ChangePage(BaseModel):
    """Some of the changes, the newest first. next: the cursor of the following ones, None at the end."""

    items: list[ChangeRecord]
    next: str | None


class JobRequest(BaseModel):
    """Index a folder of the server.

    folder: absolute, below one of the setting index_roots. labels: a csv below one of them. processes: None for
    half the cores.
    """

    folder: str
    collection: str | None = None
    labels: str | None = None
    duplicates: bool = False
    restore: bool = False
    processes: int | None = None


class RefusedFile(BaseModel):
    """A file without a usable image. path: relative to the job's folder."""

    path: str
    reason: str


class JobInfo(BaseModel):
    """A job. state: "waiting", "running", "done", "cancelled" or "failed" (error says why).

    done, total: files; total is None while they are counted. summary: of `cbir index`, when it has ended.
    refused: files, of which refused_files are the first 100.
    """

    job: str
    kind: str
    collection: str
    state: str
    created: str
    ended: str | None
    done: int
    total: int | None
    refused: int
    refused_files: list[RefusedFile]
    summary: dict[str, Any] | None
    error: str | None


class JobList(BaseModel):
    """The jobs since the service started, the newest first; of those that have ended the last 200."""

    items: list[JobInfo]


class Erased(BaseModel):
    """erased: the number of images."""

    erased: int


class Health(BaseModel):
    """status: "ok"."""

    status: str


class Readiness(BaseModel):
    """The first collection can be searched. collections: whether the others can. warning: damage got around."""

    status: str
    images: int
    generation: int
    profile: str
    collections: dict[str, str] | None = None
    warning: str | None = None


class ProblemDetails(BaseModel):
    """RFC 9457. type: address of an explanation, relative to the service's."""

    type: str
    title: str
    status: int
    detail: str
