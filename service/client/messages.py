"""Response and request models of the HTTP API, besides `cbir.search.Answer`."""

from pydantic import BaseModel, Field

from cbir.search import Answer, Links
from cbir.search import example_values as example
from cbir.search.search_models import Card, LabelsLeftOut
from service.client.collection_messages import ChangePage as ChangePage
from service.client.collection_messages import ChangeRecord as ChangeRecord
from service.client.collection_messages import CollectionInfo as CollectionInfo
from service.client.collection_messages import CollectionNames as CollectionNames
from service.client.collection_messages import CollectionStatistics as CollectionStatistics
from service.client.collection_messages import JobInfo as JobInfo
from service.client.collection_messages import JobList as JobList
from service.client.collection_messages import JobRequest as JobRequest
from service.client.collection_messages import Normalisation as Normalisation
from service.client.collection_messages import ProfileInfo as ProfileInfo
from service.client.collection_messages import RefusedFile as RefusedFile
from service.client.collection_messages import SnapshotFacts as SnapshotFacts


class ImageRecord(BaseModel):
    """Stored facts about an image, without its source."""

    image_id: str = Field(
        description="Id of the image, unique in its collection.", examples=[example.IMAGE_ID]
    )
    content_hash: str = Field(
        description="Hash of the pixels; equal for files that hold the same picture.",
        examples=[example.IMAGE_ID],
    )
    format: str = Field(
        description="Format of the file, for example dicom, png, jpeg or nifti.", examples=["dicom"]
    )
    width: int = Field(description="Width of the image in pixels.", examples=[512])
    height: int = Field(description="Height of the image in pixels.", examples=[512])
    frame: int | None = Field(
        description="Number of the frame in its file, from 1; null if the file has a single one."
    )
    study: str = Field(
        description="Study Instance UID; empty for an image that is not DICOM.", examples=[example.STUDY_UID]
    )
    series: str = Field(
        description="Series Instance UID; empty for an image that is not DICOM.",
        examples=[example.SERIES_UID],
    )
    instance: str = Field(
        description="SOP Instance UID; empty for an image that is not DICOM.", examples=[example.INSTANCE_UID]
    )
    burned_in: bool = Field(
        description="True if the DICOM header says that the pixels contain text that may identify the patient.",
        examples=[False],
    )
    patient_key: str | None = Field(
        description="Keyed hash of the patient's identifier, 32 hexadecimal digits; null if none is known.",
        examples=[example.PATIENT_KEY],
    )
    labels: dict[str, str] = Field(
        description="Labels of the image: key and value.", examples=[example.LABELS]
    )
    labels_left_out: LabelsLeftOut = False
    original: bool = Field(
        description="True if the service stores the original file and `original` returns it.", examples=[True]
    )
    links: Links = Field(description="Addresses of the image.")
    card: Card | None = Field(
        default=None, description="What a card shows of the image; null unless `cards` is set."
    )


class RerankerParameter(BaseModel):
    """Parameter of a re-ranker: a number from `minimum` to `maximum`, or "auto" where that is the default."""

    name: str = Field(description="Name of the parameter, used in `parameters` of a search.", examples=["P"])
    whole: bool = Field(description="True if the value must be a whole number.", examples=[True])
    minimum: float = Field(description="Smallest allowed value.", examples=[1])
    maximum: float = Field(description="Largest allowed value.", examples=[100])
    default: float | str = Field(
        description="Value of a search that does not set the parameter.", examples=[9]
    )
    description: str = Field(
        description="Meaning of the parameter.", examples=["nearest images that count as relevant"]
    )


class RerankerInfo(BaseModel):
    """Re-ranker and its parameters."""

    name: str = Field(description="Name to send as `rerank` of a search.", examples=["eprf"])
    title: str = Field(description="Title of the method.", examples=["Learned relevance (EPRF)"])
    description: str = Field(
        description="What the method does, in a sentence.",
        examples=["Blends the query with the first answers and searches the whole collection again."],
    )
    one_example: bool = Field(description="True if it works with one query image.", examples=[True])
    several_examples: bool = Field(
        description="True if it learns from several query images and from `feedback`.", examples=[True]
    )
    parameters: list[RerankerParameter] = Field(description="Parameters with their defaults and bounds.")
    paper: dict[str, float | str] = Field(
        default={},
        description="Values of the method's paper, which `preset=paper` stands for; empty without a paper.",
        examples=[{"K": 60, "N": 1000, "lam": 1}],
    )


class RerankerList(BaseModel):
    """The re-rankers that a search can name."""

    default: str = Field(description="Re-ranker of searches that name none.", examples=["auto"])
    items: list[RerankerInfo] = Field(description="The re-rankers.")


class ImagePage(BaseModel):
    """A page of the images of a collection."""

    items: list[ImageRecord] = Field(description="Images in the order in which they were added.")
    next: str | None = Field(
        description="Send it as `cursor` to get the following page; null on the last one.", examples=["100"]
    )


class AddedImage(BaseModel):
    """Outcome for one frame of one file."""

    file: int = Field(description="Number of the file in the order sent, from 1.", examples=[1])
    frame: int | None = Field(default=None, description="Frame of the file, from 1; null for the only one.")
    outcome: str = Field(
        description='"added", "duplicate" (`image_id` has the same pixels), "deleted earlier" or "refused" (see '
        "`reason`).",
        examples=["added"],
    )
    image_id: str | None = Field(
        default=None,
        description="Id of the new image, or of the one with the same pixels; null for a refused file.",
        examples=[example.IMAGE_ID],
    )
    reason: str | None = Field(
        default=None, description="Reason why the file was refused; null unless it was."
    )


class AddedImages(BaseModel):
    """Outcome of adding files."""

    ids: list[str] = Field(
        description="Ids of the images that were added and are on disk.", examples=[[example.IMAGE_ID]]
    )
    images: list[AddedImage] = Field(description="Outcome for every frame of every file.")


class LabelChange(BaseModel):
    """Change of the labels of an image (RFC 7396)."""

    labels: dict[str, str | None] = Field(
        description="Labels to set; null removes a label, and labels that are not named stay. Keys have 1 to 100 "
        "characters without = ! < >, values 1 to 1000.",
        examples=[{"view": "AP", "old": None}],
    )


class Erased(BaseModel):
    """Result of an erasure."""

    erased: int = Field(description="Number of images that were erased.", examples=[12])
    with_the_same_pixels: list[str] = Field(
        default=[],
        description="Images of other patients, which stay, with the pixels of an instance of this patient.",
        examples=[[]],
    )


class Health(BaseModel):
    """Health of the service."""

    status: str = Field(
        description='"ok", or "degraded" if a part does not answer: then searches go on as far as they can.',
        examples=["ok"],
    )
    degraded: list[str] | None = Field(
        default=None,
        description="Parts that do not answer, or cannot be written: state database, collection database, index, "
        "archive, audit log, disk; absent if there are none.",
        examples=[["state database"]],
    )
    down: dict[str, str] | None = Field(
        default=None,
        description="Collections whose PostgreSQL server does not answer, with the reason; absent if there are none.",
        examples=[{"knees": "the database of the collection does not answer at the moment"}],
    )


class Readiness(BaseModel):
    """Readiness of the default collection.

    Without a token, where one is needed, there is only the status.
    """

    status: str = Field(description='"ready" if the default collection can be searched.', examples=["ready"])
    degraded: list[str] | None = Field(
        default=None, description="Parts that do not answer, as in `/healthz`.", examples=[["state database"]]
    )
    images: int | None = Field(
        default=None, description="Number of images of the default collection.", examples=[13549]
    )
    generation: int | None = Field(
        default=None,
        description="Number of transactions that have changed the default collection.",
        examples=[241],
    )
    profile: str | None = Field(
        default=None, description="Name of the default collection's profile.", examples=["huang2012"]
    )
    collections: dict[str, str] | None = Field(
        default=None,
        description='State of each collection, "ready" or a problem; only where there are several.',
        examples=[{"knees": "ready", "chests": "ready"}],
    )
    folders: dict[str, str] | None = Field(
        default=None,
        description="Names of the folders that aliases of collections lead to at present.",
        examples=[{"knees": "knees-2026-03"}],
    )
    device: str | None = Field(
        default=None,
        description="Device that searches and networks use, and why; and that of the default collection's FAISS "
        "index, where it is another one.",
        examples=["cpu, because this machine has no GPU driver"],
    )
    warning: str | None = Field(
        default=None,
        description="Damage of the default collection that searches work around, and requests that the audit log "
        "lacks since it could not be written; absent if there is none.",
    )


class ProblemDetails(BaseModel):
    """Problem details (RFC 9457)."""

    type: str = Field(
        description="Address of an explanation of this kind of problem, relative to the service.",
        examples=["/docs/errors#not-found"],
    )
    title: str = Field(description="Name of this kind of problem.", examples=["Not found"])
    status: int = Field(description="HTTP status code of the response.", examples=[404])
    detail: str = Field(
        description="What is wrong with this request, and how to correct it.",
        examples=[f"there is no image {example.IMAGE_ID} in the collection"],
    )


class BatchItem(BaseModel):
    """Outcome of one query: an answer, or a problem."""

    answer: Answer | None = Field(
        default=None, description="Answer to the query, as of `search`; null if there is a problem."
    )
    problem: ProblemDetails | None = Field(
        default=None,
        description="Problem details (RFC 9457), as `search` would respond with; null if there is an answer.",
    )


class BatchAnswers(BaseModel):
    """Outcomes of the queries of a batch."""

    items: list[BatchItem] = Field(description="An outcome for each query, in the order of the request.")
