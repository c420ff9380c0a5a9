"""Messages of a search: judgements, hits and answer, as the HTTP API has them.

The HTTP client imports them: nothing here loads images or vectors.
"""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from cbir.search.image_links import Links

if TYPE_CHECKING:
    from cbir.store import Record

MAX_EXAMPLES = 20
MAX_JUDGEMENTS = 300


MAX_ID_CHARACTERS = 100

MAX_TEXT = 2000  # characters; text towers read a few hundred tokens

ImageId = Annotated[str, Field(max_length=MAX_ID_CHARACTERS)]


class Judgement(BaseModel):
    """Relevance of an image by a person, from -1, certainly not, to 1, certainly; 0 says nothing."""

    model_config = ConfigDict(extra="forbid")

    image_id: ImageId
    relevance: float = Field(ge=-1.0, le=1.0, allow_inf_nan=False)


Examples = Annotated[list[ImageId], Field(max_length=MAX_EXAMPLES)]
Judgements = Annotated[list[Judgement], Field(max_length=MAX_JUDGEMENTS)]


class DicomPlace(BaseModel):
    """UIDs of an image in the archive (PS3.3); frame from 1, None for the only one."""

    study: str
    series: str
    instance: str
    frame: int | None

    @classmethod
    def of_record(cls, record: "Record") -> "DicomPlace | None":
        """Return the reference of a record's image; None for an image that is not DICOM."""
        if not record.instance:
            return None
        return cls(study=record.study, series=record.series, instance=record.instance, frame=record.frame)


class Hit(BaseModel):
    """One answer. rank from 1; score: larger is more relevant; distance: Euclidean, of normalised vectors.

    source: path or address of the file; null over HTTP unless the setting show_sources is on.
    """

    rank: int
    image_id: str
    score: float
    distance: float
    labels: dict[str, str]
    patient: str | None
    dicom: DicomPlace | None
    links: Links
    source: str | None = None

    @property
    def id(self) -> str:
        """The image id."""
        return self.image_id


class QueryFacts(BaseModel):
    """Facts about the query. image_id: of the same picture in the collection, which is left out of the answer.

    format: "text" for a search by text, whose width and height are 0.
    """

    image_id: str | None
    width: int
    height: int
    format: str
    frame: int | None


class RerankFacts(BaseModel):
    """Re-ranking method of an answer, and the part of the collection that it re-ranked.

    reason: why `auto` chose this method, a phrase; empty for a method that the request names.
    """

    method: str
    parameters: dict[str, Any]
    scope: str
    notes: tuple[str, ...]
    reason: str = ""


class Answer(BaseModel):
    """Answer to a search."""

    query: QueryFacts
    rerank: RerankFacts
    results: list[Hit]
    timings_ms: dict[str, float]
