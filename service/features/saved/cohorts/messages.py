"""Requests and responses about cohorts."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from cbir.search import ImageId, Links
from cbir.search import example_values as example
from cbir.search.search_models import LabelsLeftOut
from service.features.saved.cases.messages import Note, Shared, Title

COHORT_ID = "5b0c9e7d31f2a846"  # of examples
MAX_JUDGED = 1000  # images of one request
MAX_BATCH = 200
MAX_CONDITIONS = 32

ExportFormat = Literal["csv", "dicom", "monai", "coco", "label-studio"]
ImageIds = Annotated[list[ImageId], Field(max_length=MAX_JUDGED)]


class NewCohort(BaseModel):
    """Cohort to begin: images that belong to it, and others that do not."""

    model_config = ConfigDict(extra="forbid")

    title: Title
    note: Note = ""
    shared: Shared = False
    relevant: Annotated[ImageIds, Field(min_length=1)] = Field(
        description="Ids of images that belong to the cohort, at least one.", examples=[[example.IMAGE_ID]]
    )
    irrelevant: ImageIds = Field(default=[], description="Ids of images that do not.", examples=[[]])
    where: Annotated[list[Annotated[str, Field(max_length=2000)]], Field(max_length=MAX_CONDITIONS)] = Field(
        default=[],
        description="Conditions on labels, as of a search: only images for which they hold are searched.",
        examples=[["modality=CR"]],
    )


class CohortChange(BaseModel):
    """Change of a cohort; what is absent stays."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"shared": True}]})

    title: Title | None = Field(default=None, description="New title.", examples=["Lateral knees"])
    note: Note | None = Field(
        default=None, description="New note in plain text.", examples=["Without implants."]
    )
    shared: bool | None = Field(
        default=None,
        description="Whether every caller who may use the collection sees the cohort.",
        examples=[True],
    )


class CohortJudgement(BaseModel):
    """Judgement of an image."""

    model_config = ConfigDict(extra="forbid")

    image_id: ImageId = Field(description="Id of the image.", examples=[example.OTHER_IMAGE_ID])
    relevant: bool = Field(description="Whether the image belongs to the cohort.", examples=[True])


class CohortJudgements(BaseModel):
    """Judgements of images; a later one of an image replaces an earlier one."""

    model_config = ConfigDict(extra="forbid")

    judgements: Annotated[list[CohortJudgement], Field(min_length=1, max_length=MAX_JUDGED)] = Field(
        description=f"1 to {MAX_JUDGED} judgements."
    )


class CohortEstimate(BaseModel):
    """Estimate of how many images of the cohort are missing."""

    images: int = Field(description="Number of images that are searched.", examples=[13549])
    judged: int = Field(description="Number of judged images.", examples=[240])
    found: int = Field(description="Number of images judged relevant.", examples=[128])
    missing: float = Field(description="Estimated number of images that are not found yet.", examples=[12.0])
    missing_low: int = Field(description="Lower end of its 95 % interval.", examples=[3])
    missing_high: int = Field(description="Upper end of its 95 % interval.", examples=[30])
    recall: float = Field(description="Estimated share of the cohort that is found.", examples=[0.91])
    recall_low: float = Field(description="Lower end of its 95 % interval.", examples=[0.81])
    recall_high: float = Field(description="Upper end of its 95 % interval.", examples=[0.98])
    advice: Literal["continue", "nearly complete", "complete"] = Field(
        description="`complete`: at least 95 % are found, by the lower end of the interval; `nearly complete`: at "
        "least 90 % by the estimate itself.",
        examples=["continue"],
    )


class CohortSummary(BaseModel):
    """Facts about a cohort."""

    id: str = Field(description="Id of the cohort.", examples=[COHORT_ID])
    title: Title
    note: Note
    shared: Shared
    collection: str = Field(description="Name of the collection.", examples=["knees"])
    where: list[str] = Field(description="Conditions on labels.", examples=[["modality=CR"]])
    owner: str = Field(
        description="Who began it: a user, a token by its id, or service where no tokens are needed.",
        examples=["user alice"],
    )
    mine: bool = Field(
        description="Whether the caller is the owner, who alone can judge and change.", examples=[True]
    )
    created: str = Field(description="Time of its beginning (ISO 8601, UTC).", examples=[example.TIME])
    changed: str = Field(description="Time of the last change (ISO 8601, UTC).", examples=[example.TIME])
    judged: int = Field(description="Number of judged images that the caller may see.", examples=[240])
    found: int = Field(description="Number of those that belong to the cohort.", examples=[128])


class CohortPage(BaseModel):
    """One page of cohorts."""

    items: list[CohortSummary] = Field(description="Cohorts, the one that was begun last first.")
    next: str | None = Field(description="`cursor` of the next page; null on the last one.", examples=["41"])


class JudgedCohortImage(BaseModel):
    """Judged image of a cohort."""

    image_id: str = Field(description="Id of the image.", examples=[example.OTHER_IMAGE_ID])
    relevant: bool = Field(description="Whether it belongs to the cohort.", examples=[True])
    labels: dict[str, str] = Field(description="Labels of the image.", examples=[example.LABELS])
    labels_left_out: LabelsLeftOut = False
    links: Links = Field(description="Addresses of the image.")


class SavedCohort(CohortSummary):
    """Cohort with its judged images, in the order of judging; deleted and hidden images are left out."""

    images: list[JudgedCohortImage] = Field(description="Judged images.")


class NextImage(BaseModel):
    """Image to judge next."""

    image_id: str = Field(description="Id of the image.", examples=[example.OTHER_IMAGE_ID])
    probability: float = Field(description="Probability that it belongs to the cohort.", examples=[0.87])
    drawn: bool = Field(
        description="Whether it was drawn at random, to test the estimate; else it is among the most probable.",
        examples=[False],
    )
    labels: dict[str, str] = Field(description="Labels of the image.", examples=[example.LABELS])
    labels_left_out: LabelsLeftOut = False
    links: Links = Field(description="Addresses of the image.")


class CohortBatch(BaseModel):
    """Images to judge next, and how far the cohort is."""

    items: list[NextImage] = Field(description="Images, the most probable first; none if all are judged.")
    estimate: CohortEstimate = Field(description="How many images are missing.")
