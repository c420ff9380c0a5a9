"""Messages of a search: judgements, hits and answer, as the HTTP API has them.

The HTTP client imports them: nothing here loads images or vectors.
"""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from cbir.search import example_values as example
from cbir.search.image_links import Links, record_links
from cbir.settings import Settings

if TYPE_CHECKING:
    from cbir.rerank.ranked import Ranked
    from cbir.store import Record

MAX_EXAMPLES = 20
MAX_JUDGEMENTS = 300


MAX_ID_CHARACTERS = 100

MAX_TEXT = 2000  # characters; text towers read a few hundred tokens
MAX_GROUP_SIZE = 100

ImageId = Annotated[str, Field(max_length=MAX_ID_CHARACTERS)]


class Judgement(BaseModel):
    """Relevance of an image by a person, from -1, certainly not, to 1, certainly; 0 says nothing."""

    model_config = ConfigDict(extra="forbid")

    image_id: ImageId = Field(description="Id of the judged image.", examples=[example.OTHER_IMAGE_ID])
    relevance: float = Field(
        ge=-1.0,
        le=1.0,
        allow_inf_nan=False,
        description="Relevance from -1, certainly not relevant, to 1, certainly relevant; 0 says nothing.",
        examples=[1.0],
    )


LabelsLeftOut = Annotated[
    bool,
    Field(
        description="Whether `labels` is empty because the labels of the answer would be too long together; `image` "
        "returns them.",
        examples=[False],
    ),
]
Examples = Annotated[list[ImageId], Field(max_length=MAX_EXAMPLES)]
Judgements = Annotated[list[Judgement], Field(max_length=MAX_JUDGEMENTS)]


class DicomPlace(BaseModel):
    """UIDs of an image in the archive (PS3.3)."""

    study: str = Field(description="Study Instance UID.", examples=[example.STUDY_UID])
    series: str = Field(description="Series Instance UID.", examples=[example.SERIES_UID])
    instance: str = Field(description="SOP Instance UID.", examples=[example.INSTANCE_UID])
    frame: int | None = Field(
        description="Number of the frame, from 1; null for the only one.", examples=[None]
    )

    @classmethod
    def of_record(cls, record: "Record") -> "DicomPlace | None":
        """Return the reference of a record's image; None for an image that is not DICOM."""
        if not record.instance:
            return None
        return cls(study=record.study, series=record.series, instance=record.instance, frame=record.frame)


class HitGroup(BaseModel):
    """Group of a result, in a search with `group_by`."""

    rank: int = Field(description="Position of the group, by its best image, from 1.", examples=[1])
    key: str | None = Field(
        description="What the group has in common: patient key, Study or Series Instance UID, or value of the label; "
        "null for an image without it, which is a group of its own.",
        examples=["CT"],
    )
    more: int = Field(
        description="Number of further images of the group within the `depth` of the grouping that are not among "
        "the results.",
        examples=[7],
    )


class Grouping(BaseModel):
    """Facts about the groups of an answer."""

    by: str = Field(description="The parameter `group_by`.", examples=["study"])
    size: int = Field(description="Most results of a group.", examples=[1])
    depth: int = Field(
        description="Number of images, best first, among which groups were looked for and their images counted.",
        examples=[200],
    )


class MatchBox(BaseModel):
    """Place in an image, as shares of its sides."""

    x: float = Field(description="Left edge, from 0 to 1.", examples=[0.25])
    y: float = Field(description="Upper edge, from 0 to 1.", examples=[0.4])
    width: float = Field(description="Width, above 0 to 1.", examples=[0.3])
    height: float = Field(description="Height, above 0 to 1.", examples=[0.2])


class Hit(BaseModel):
    """One result of a search."""

    rank: int = Field(description="Position in the results, from 1.", examples=[1])
    image_id: str = Field(description="Id of the image.", examples=[example.OTHER_IMAGE_ID])
    score: float = Field(
        description="Relevance that the re-ranker gave; larger is more relevant. Comparable within one answer only.",
        examples=[0.93],
    )
    distance: float = Field(
        description="Euclidean distance from the query, of normalised vectors; at least 0.", examples=[0.51]
    )
    labels: dict[str, str] = Field(
        description="Labels of the image: key and value.", examples=[example.LABELS]
    )
    labels_left_out: LabelsLeftOut = False
    patient: str | None = Field(
        description="Patient key, 32 hexadecimal digits; null if no patient is known.",
        examples=[example.PATIENT_KEY],
    )
    dicom: DicomPlace | None = Field(description="UIDs of the image; null for an image that is not DICOM.")
    links: Links = Field(description="Addresses of the image.")
    source: str | None = Field(
        default=None,
        description="Path or address of the file; null over HTTP unless the setting `show_sources` is on.",
        examples=[None],
    )
    group: HitGroup | None = Field(default=None, description="Group of the image; null without `group_by`.")
    site: str | None = Field(
        default=None,
        description="Name of the other service that has the image; null for an image of this one. Such an image has "
        "no record here, and its `thumbnail` is the picture itself, or empty.",
        examples=[None],
    )
    match: MatchBox | None = Field(
        default=None, description="Where the image is most like the region; null without `anywhere`."
    )

    @property
    def id(self) -> str:
        """The image id."""
        return self.image_id

    @classmethod
    def of_record(
        cls, record: "Record", settings: Settings, *, rank: int, score: float, distance: float
    ) -> "Hit":
        """Return the hit that reports a record.

        Parameters
        ----------
        record : Record
            Record of the image.
        settings : Settings
            Addresses of archive and viewer, and whether sources are shown.
        rank : int
            From 1.
        score, distance : float
            Score, larger for more relevant images, and Euclidean distance to the query.
        """
        return cls(
            rank=rank,
            image_id=record.image_id,
            score=score,
            distance=distance,
            labels=record.labels,
            patient=record.patient_key,
            dicom=DicomPlace.of_record(record),
            links=record_links(settings, record),
            source=record.source if settings.show_sources else None,
        )


class QueryFacts(BaseModel):
    """Facts about the query."""

    image_id: str | None = Field(
        description="Id of the same picture in the collection, which is left out of the results; null if it has "
        "none.",
        examples=[example.IMAGE_ID],
    )
    width: int = Field(description="Width of the query in pixels; 0 for a text or vector.", examples=[512])
    height: int = Field(description="Height of the query in pixels; 0 for a text or vector.", examples=[512])
    format: str = Field(
        description='Format of the file; "text" or "vector" for a search by those.', examples=["dicom"]
    )
    frame: int | None = Field(
        description="Frame that was searched with, from 1; null for the only one.", examples=[None]
    )
    likeness: float | None = Field(
        default=None,
        description="How like the searched images the query is, from 0 to 1: the share of images of the collection "
        "whose nearest other is at least as far as the nearest image found. Null for a text, where there is "
        "nothing to compare with, and where another site has a nearer image.",
        examples=[0.42],
    )
    outlier: bool | None = Field(
        default=None,
        description="Whether nothing found looks like the query: its likeness is at most 0.01, as that of one in a "
        "hundred images of the collection. Null where the likeness is.",
        examples=[False],
    )


class RerankFacts(BaseModel):
    """Re-ranking method of an answer, and the part of the collection that it re-ranked."""

    method: str = Field(description="Name of the re-ranker that was used.", examples=["aqe"])
    parameters: dict[str, Any] = Field(
        description="Values of all its parameters.", examples=[{"P": 10, "alpha": 3.0}]
    )
    scope: str = Field(
        description="Images that were re-ranked, for example collection for all of them.",
        examples=["collection"],
    )
    notes: tuple[str, ...] = Field(
        description="What could not be done as requested, in sentences.", examples=[[]]
    )
    reason: str = Field(
        default="",
        description="Why `auto` chose this method; empty for a method that the request names.",
        examples=[""],
    )
    index: str = Field(
        default="",
        description="Index that found the nearest images: flat, ivf, hnsw, pgvector or milvus; empty for none.",
        examples=["flat"],
    )

    @classmethod
    def of_ranked(cls, ranked: "Ranked") -> "RerankFacts":
        """Return how images were ranked."""
        return cls(**{name: getattr(ranked, name) for name in cls.model_fields})


class LabelAgreement(BaseModel):
    """Label value that most of the first answers have. It describes images of the collection, not the query."""

    key: str = Field(description="Label key.", examples=["modality"])
    value: str = Field(
        description="The most frequent value; on a tie that of the better rank.", examples=["CT"]
    )
    agreeing: int = Field(description="Number of answers with this value.", examples=[8])
    answers: int = Field(description="Number of answers that were looked at, at most 10.", examples=[10])
    right: float | None = Field(
        default=None,
        description="Share of searches with images of the collection itself that agreed as much and whose own label "
        "was this value, from 0 to 1. Null where it was not measured: for other methods than `auto`, with filters, "
        "examples or judgements, for outliers, and for few images.",
        examples=[0.91],
    )
    images: int | None = Field(
        default=None, description="Number of these searches; null where it was not measured.", examples=[132]
    )


class SiteReport(BaseModel):
    """Part of a site in an answer."""

    name: str | None = Field(description="Name of the site; null for this service.", examples=["north"])
    images: int | None = Field(
        description="Number of images that it says it has searched among; null where it gave no answer.",
        examples=[24000],
    )
    results: int = Field(description="Number of its images among the results.", examples=[7])
    problem: str = Field(
        description="Why it gave no answer that can be used; empty otherwise.", examples=[""]
    )
    notes: list[str] = Field(description="What was left out of its answer, in sentences.", examples=[[]])
    milliseconds: float = Field(
        description="Time until its answer, or until it was given up.", examples=[38.2]
    )


class Answer(BaseModel):
    """Answer to a search."""

    query: QueryFacts = Field(description="What was searched with.")
    rerank: RerankFacts = Field(description="The re-ranking that was done.")
    results: list[Hit] = Field(
        description="Similar images, best first; at most `k`, or with `group_by` those of at most `k` groups, the "
        "images of a group one after another."
    )
    timings_ms: dict[str, float] = Field(
        description="Duration of each stage in milliseconds.", examples=[{"search": 2.6, "total": 10.8}]
    )
    agreement: list[LabelAgreement] = Field(
        default=[],
        description="The most frequent value of each label of the first ten results, the most agreed first.",
    )
    sites: list[SiteReport] | None = Field(
        default=None,
        description="This service and the others that were asked, in their order; null unless others were asked.",
    )
    grouping: Grouping | None = Field(
        default=None, description="How the results were grouped; null without `group_by`."
    )
