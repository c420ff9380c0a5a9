"""Response and request models of the HTTP API, besides `cbir.search.Answer`."""

from typing import Any

from pydantic import BaseModel

from cbir.grade import Grade as Grade
from cbir.grade import GradedNeighbour as GradedNeighbour
from cbir.search import Hit, Links, RerankFacts


class ImageRecord(BaseModel):
    """Stored facts about an image, without its source.

    patient_key: keyed hash of the patient's identifier. frame: from 1, null for a single one. original: true if the
    original file is stored.
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


class SliceMatch(BaseModel):
    """The image of a result that is most similar to an image of the query.

    query: id of the query's image. image_id, instance, frame: of the result's image. score: similarity, 1 for equal
    vectors.
    """

    query: str
    image_id: str
    instance: str
    frame: int | None
    score: float


class RerankerParameter(BaseModel):
    """Parameter of a re-ranker: a number from `minimum` to `maximum`, or "auto" where that is the default."""

    name: str
    whole: bool
    minimum: float
    maximum: float
    default: float | str
    description: str


class RerankerInfo(BaseModel):
    """Re-ranker. one_example, several_examples: what it takes; the latter includes judgements."""

    name: str
    title: str
    description: str
    one_example: bool
    several_examples: bool
    parameters: list[RerankerParameter]


class RerankerList(BaseModel):
    """Re-rankers. default: of searches that name none."""

    default: str
    items: list[RerankerInfo]


class SimilarPlace(BaseModel):
    """A similar instance, series or study.

    rank: from 1. score: combined score of its images. found: number of its images in the ranking lists of the query's
    images, with combine=maxsim among its matches. series, instance: null above their level. best: its image with the
    highest score, with the rank in its list, or with maxsim of the result. matches: with maxsim, its image for each
    image of the query; else empty.
    """

    rank: int
    score: float
    found: int
    study: str
    series: str | None
    instance: str | None
    best: Hit
    matches: list[SliceMatch] = []


class SimilarQuery(BaseModel):
    """The query. images: number of its images that were searched with, each with a ranking list of its own."""

    study: str
    series: str | None
    instance: str | None
    images: int


class SimilarAnswer(BaseModel):
    """A page of similar cases. total: number of cases on all pages."""

    query: SimilarQuery
    level: str
    combine: str
    exclude: str
    total: int
    results: list[SimilarPlace]
    rerank: RerankFacts
    timings_ms: dict[str, float]


class ImagePage(BaseModel):
    """A page of the images, oldest first. next: cursor of the following page, null at the end."""

    items: list[ImageRecord]
    next: str | None


class AddedImage(BaseModel):
    """Outcome for one frame of one file.

    file: from 1, in the order sent. outcome: "added", "duplicate" (image_id has the same pixels), "deleted earlier"
    or "refused" (see reason).
    """

    file: int
    frame: int | None = None
    outcome: str
    image_id: str | None = None
    reason: str | None = None


class AddedImages(BaseModel):
    """Outcome of adding files. ids: images that were added and are on disk. images: outcome for every frame."""

    ids: list[str]
    images: list[AddedImage]


class LabelChange(BaseModel):
    """Labels to set; null removes a label, others stay (RFC 7396)."""

    labels: dict[str, str | None]


class CollectionNames(BaseModel):
    """Names of the collections. default: the collection of requests that name none."""

    collections: list[str]
    default: str


class SnapshotFacts(BaseModel):
    """The derived index."""

    file: str
    generation: int
    images: int


class CollectionInfo(BaseModel):
    """Facts about a collection. generation: number of transactions that changed it."""

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
    """Settings that turn images into vectors; only vectors with equal hashes can be compared.

    components: learned directions that the values of an encoder are projected to; null for other descriptors.
    """

    name: str
    hash: str
    descriptor: str
    dimensions: int
    parts: dict[str, int]
    normalisation: str
    components: int | None
    weights: dict[str, float]
    metric: str
    rerank: dict[str, Any]


class Normalisation(BaseModel):
    """normalised = (raw - mean) * scale. fitted_on: number of images that mean and scale were fitted on.

    The values of an encoder, which `scale` leaves out, are projected to `components` directions learned from the
    collection instead (null if there are too few images, or no encoder) and scaled to length 1. version: of the fit.
    """

    fitted_on: int
    components: int | None
    version: int
    mean: list[float]
    scale: list[float]


class CollectionStatistics(BaseModel):
    """Counts of images. labels: the most frequent values of every key, at most 100.

    normalisation: null until there are enough images to fit it.
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
    """A page of the changes, newest first. next: cursor of the following page, null at the end."""

    items: list[ChangeRecord]
    next: str | None


class JobRequest(BaseModel):
    """Index a folder of the server.

    folder: absolute path below one of the setting index_roots. labels: a csv below one of them. processes: null for
    half the cores.
    """

    folder: str
    collection: str | None = None
    labels: str | None = None
    duplicates: bool = False
    restore: bool = False
    processes: int | None = None


class RefusedFile(BaseModel):
    """A file without a usable image. path: relative to the job's folder. reason: why."""

    path: str
    reason: str


class JobInfo(BaseModel):
    """A job. state: "waiting", "running", "done", "cancelled" or "failed" (see error).

    done, total: numbers of files; total is null while they are counted. summary: of `cbir index`, once it has ended.
    refused: number of refused files; refused_files: the first 100.
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
    """Jobs since the service started, newest first; at most 200 that have ended."""

    items: list[JobInfo]


class Erased(BaseModel):
    """Result of an erasure. erased: number of images."""

    erased: int


class Health(BaseModel):
    """Health of the service. status: "ok"."""

    status: str


class Readiness(BaseModel):
    """Readiness of the first collection. collections: state of the others. warning: damage that was worked around.

    folders: names of the folders that aliases lead to at present.
    Without a token, where one is needed, there is only the status.
    """

    status: str
    images: int | None = None
    generation: int | None = None
    profile: str | None = None
    collections: dict[str, str] | None = None
    folders: dict[str, str] | None = None
    warning: str | None = None


class ProblemDetails(BaseModel):
    """Problem details (RFC 9457). type: URL of an explanation, relative to the service."""

    type: str
    title: str
    status: int
    detail: str
