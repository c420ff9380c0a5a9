"""Messages of a search: cards, judgements and hits, with the addresses of their images, as the HTTP API has them.

The HTTP client imports them: nothing here loads images or vectors.
"""

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from cbir.search import example_values as example
from cbir.settings import Settings
from cbir.store.external_links import external_links

if TYPE_CHECKING:
    from cbir.store import Record


class SliceOfSeries(BaseModel):
    """Place of an image in its series."""

    number: int = Field(description="Position among the images of the series, from 1.", examples=[13])
    count: int = Field(description="Number of images of the series in the collection.", examples=[24])
    position_mm: float | None = Field(
        description="Position along the normal of its stack, in mm of the patient; null if unknown.",
        examples=[-31.5],
    )
    stack: int = Field(
        description="Number of the parallel slices of one pass that it belongs to, from 1: positions of one stack "
        "follow each other.",
        examples=[1],
    )


def _label(meaning: str, value: str) -> str | None:
    description = f"{meaning}; null if no label says so."
    return Field(default=None, description=description, examples=[value])


class Card(BaseModel):
    """Facts of an image on its card, from the labels that the setting `card_labels` names."""

    finding: str | None = _label("Finding or diagnosis", "Meningioma")
    modality: str | None = _label("Modality", "MR")
    body_part: str | None = _label("Body part", "head")
    age: str | None = _label("Age of the patient in years", "54")
    sex: str | None = _label("Sex of the patient", "F")
    year: str | None = _label("Year of the study", "2021")
    series_description: str | None = _label("Description of the series", "T1 post contrast")
    slice: SliceOfSeries | None = Field(
        default=None, description="Place in the series; null for an image that is of none, or alone in it."
    )
    patient_images: int | None = Field(
        default=None,
        description="Number of further images of the patient in the collection; null if the patient is unknown.",
        examples=[7],
    )


MAX_EXAMPLES = 20
MAX_JUDGEMENTS = 300


MAX_ID_CHARACTERS = 100
MAX_NAME_CHARACTERS = 255  # of a re-ranker, a collection, a profile or a label

MAX_TEXT = 2000  # characters; text towers read a few hundred tokens
MAX_GROUP_SIZE = 100

ImageId = Annotated[str, Field(max_length=MAX_ID_CHARACTERS)]


class Links(BaseModel):
    """Addresses of an image: on the service, in the archive, and in the viewer."""

    thumbnail: str = Field(
        description="Address of the thumbnail on the service.",
        examples=[f"/v1/images/{example.IMAGE_ID}/thumbnail"],
    )
    image: str = Field(
        description="Address of the image's record on the service.",
        examples=[f"/v1/images/{example.IMAGE_ID}"],
    )
    rendered: str | None = Field(
        default=None,
        description="Address of the rendered image in the archive; null unless the settings name an archive.",
        examples=[None],
    )
    viewer: str | None = Field(
        default=None,
        description="Address of the image in the viewer; null unless the settings name a viewer.",
        examples=[None],
    )

    def in_collection(self, name: str | None) -> "Links":
        """Return the links with the collection `name`; None for the default one."""
        if not name:
            return self
        start = f"/v1/collections/{quote(name, safe='')}"
        paths = {each: start + getattr(self, each).removeprefix("/v1") for each in ("thumbnail", "image")}
        return self.model_copy(update=paths)


def image_links(image_id: str, **external: str | None) -> Links:
    """Return the links of an image; `external` as `cbir.store.external_links.external_links` returns them."""
    address = f"/v1/images/{quote(image_id)}"
    return Links(thumbnail=f"{address}/thumbnail", image=address, **external)


def record_links(settings: Settings, record: "Record") -> Links:
    """Return the links of the image of `record`; `settings` name the archive and the viewer."""
    linked = settings.archive_public_url or settings.archive_url or settings.viewer_link
    if not linked or record.format == "nifti":  # whose UIDs are our own
        return image_links(record.image_id)
    external = external_links(settings, record.study, record.series, record.instance, record.frame)
    return image_links(record.image_id, **external)


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


class QueryOrigin(BaseModel):
    """Facts about an uploaded file, for later searches with its vector alone."""

    model_config = ConfigDict(extra="forbid")

    content_hash: str = Field(
        max_length=MAX_ID_CHARACTERS,
        description="Hash of the pixels; copies of the picture are no results.",
        examples=[example.IMAGE_ID],
    )
    study: str = Field(
        default="",
        max_length=64,
        description="Study Instance UID; empty for a file that is not DICOM.",
        examples=[example.STUDY_UID],
    )
    width: int = Field(ge=0, description="Width of the query in pixels.", examples=[512])
    height: int = Field(ge=0, description="Height of the query in pixels.", examples=[512])
    format: str = Field(max_length=20, description="Format of the file.", examples=["dicom"])
    frame: int | None = Field(
        default=None,
        description="Frame that was searched with, from 1; null for the only one.",
        examples=[None],
    )


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
    card: Card | None = Field(
        default=None, description="What a card shows of the image; null unless `include` names cards."
    )
    rank_before: int | None = Field(
        default=None,
        description="Its rank without re-ranking; null beyond the `depth` of `before`, and unless `include` names "
        "before.",
        examples=[4],
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
