"""Messages of audits and of the quarantine, with ids of images, no files and no patients."""

from datetime import date
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from cbir.search import example_values as example


class SuspectLabel(BaseModel):
    """A label that is probably wrong."""

    image_id: str = Field(description="Id of the image.", examples=[example.IMAGE_ID])
    label: str = Field(description="Value that the image has.", examples=["chest"])
    suggested: str = Field(description="The likeliest other value.", examples=["abdomen"])
    suspicion: float = Field(
        description="From 0 to 1; above 0.5 if the other value is likelier.", ge=0, le=1, examples=[0.982134]
    )
    neighbours: list[str] = Field(
        description="Nearest images of other patients that have the other value.",
        examples=[[example.OTHER_IMAGE_ID]],
    )


class LabelConfusion(BaseModel):
    """Number of suspect labels of one value that look like another."""

    label: str = Field(description="Value that the images have.", examples=["chest"])
    suggested: str = Field(description="Value that they look like.", examples=["abdomen"])
    images: int = Field(description="Number of images.", examples=[12])


class JudgedValue(BaseModel):
    """Numbers of images with a value of a label."""

    value: str = Field(description="Value that the images have.", examples=["chest"])
    images: int = Field(description="Number of images.", examples=[2400])
    suspects: int = Field(description="Number of those whose label is suspect.", examples=[14])


class LabelFindings(BaseModel):
    """Suspect labels."""

    key: str = Field(description="Key of the label.", examples=["anatomy"])
    judged: int = Field(description="Images with the label.", examples=[13549])
    suspects: int = Field(description="Labels with a suspicion above 0.5.", examples=[84])
    rare: list[str] = Field(
        description="Values of too few independent images to judge.", examples=[["orbit"]]
    )
    values: list[JudgedValue] = Field(
        default=[], description="Values, those with the largest share of suspect labels first."
    )
    confusions: list[LabelConfusion] = Field(description="Numbers of suspect labels by value.")
    items: list[SuspectLabel] = Field(description="The most suspicious first.")


class AuditCopy(BaseModel):
    """A member of a group of duplicates."""

    image_id: str = Field(description="Id of the image.", examples=[example.IMAGE_ID])
    change: str = Field(
        description="What was done to the first of the group, which is the reference.",
        examples=["resized+gamma"],
    )


class DuplicateFindings(BaseModel):
    """Duplicates and near-duplicates."""

    groups: int = Field(description="Number of groups.", examples=[31])
    images: int = Field(description="Images in groups.", examples=[70])
    unread: int = Field(
        description="Images without a readable file, compared by their content alone.", examples=[0]
    )
    items: list[list[AuditCopy]] = Field(
        description="The first 1000 groups, each from its reference on, and the first 50 images of each."
    )


class LeakedCopy(BaseModel):
    """An image of a leak, and the part of the split that it is in."""

    image_id: str = Field(description="Id of the image.", examples=[example.IMAGE_ID])
    part: str = Field(description="Part of the split.", examples=["test"])


class AuditLeak(BaseModel):
    """Images of several parts that belong together."""

    kind: str = Field(description="patient, study, picture or near-duplicate", examples=["patient"])
    images: list[LeakedCopy] = Field(description="Images that belong together.")


class LeakFindings(BaseModel):
    """Leaks between the parts of a split."""

    key: str = Field(description="Key of the label that names the part.", examples=["part"])
    counts: dict[str, int] = Field(description="Number of leaks of each kind.", examples=[{"patient": 3}])
    items: list[AuditLeak] = Field(description="The first 1000, with the first 50 images of each.")


class AuditOutlier(BaseModel):
    """An image unlike the rest."""

    image_id: str = Field(description="Id of the image.", examples=[example.IMAGE_ID])
    likeness: float = Field(
        description="Share of the images that are at least as far from their neighbours.",
        ge=0,
        le=1,
        examples=[0.000148],
    )


class OutlierFindings(BaseModel):
    """Images unlike the rest."""

    images: int = Field(description="Number of images unlike the rest.", examples=[35])
    items: list[AuditOutlier] = Field(description="The least like the rest first.")


class DriftWeek(BaseModel):
    """A check of a source at the end of a week."""

    monday: date = Field(description="First day of the week.", examples=["2026-03-02"])
    images: int = Field(description="Images added in the week.", examples=[61])
    p: float = Field(
        description="p-value of the hypothesis that nothing has changed.", ge=0, le=1, examples=[0.003]
    )
    alarm: bool = Field(description="Whether p is at most the threshold.", examples=[True])
    image_ids: list[str] = Field(
        description="The least expected new images, if there is an alarm.", examples=[[example.IMAGE_ID]]
    )


class DriftSource(BaseModel):
    """Weekly checks of a source."""

    source: str = Field(description="Name of the source.", examples=["room 2"])
    images: int = Field(description="Number of its images.", examples=[1810])
    alarms: int = Field(
        description="Number of alarms; those of consecutive weeks count as one.", examples=[1]
    )
    weeks: list[DriftWeek] = Field(
        description="The oldest first; none if images were added in too few weeks."
    )


class DriftFindings(BaseModel):
    """Sources over time."""

    key: str | None = Field(
        description="Label that names the source; null: the folder of the file does.", examples=["source"]
    )
    threshold: float = Field(
        description="p-value of an alarm: one false alarm a year is expected of all sources.",
        examples=[0.0048],
    )
    alarms: int = Field(description="Number of alarms of all sources.", examples=[1])
    sources: list[DriftSource] = Field(description="Sources with their weeks.")


class CoverageValue(BaseModel):
    """A value of a label."""

    value: str = Field(description="Value of the label.", examples=["CT"])
    images: int = Field(description="Number of images that have it.", examples=[5210])
    patients: int | None = Field(
        description="Different patients; null if no image names one.", examples=[1904]
    )
    thin: bool = Field(description="True for fewer than 20 images or 5 patients.", examples=[False])


class CoverageLabel(BaseModel):
    """A label with its values, the most frequent first."""

    key: str = Field(description="Key of the label.", examples=["modality"])
    unlabelled: int = Field(description="Number of images without the label.", examples=[0])
    values: list[CoverageValue] = Field(description="Its values, the most frequent first.")


class CoverageFindings(BaseModel):
    """Counts of the collection."""

    patients: int = Field(description="Number of different patients.", examples=[1611])
    without_patient: int = Field(description="Number of images that name no patient.", examples=[9739])
    thin: int = Field(description="Number of values with few images or patients.", examples=[2])
    labels: list[CoverageLabel] = Field(description="Labels with their values.")


class GroupFinding(BaseModel):
    """Retrieval quality of a group of images, compared with others of the same labels."""

    key: str = Field(description="Key of the label.", examples=["sex"])
    value: str = Field(description="Value that all images of the group have.", examples=["F"])
    images: int = Field(description="Number of images that were compared.", examples=[812])
    patients: int = Field(description="Number of their patients.", examples=[640])
    precision: float = Field(
        description="Mean share of the first ten answers that have the image's label.", examples=[0.913]
    )
    difference: float = Field(description="To other images of the same label.", examples=[-0.021])
    low: float = Field(description="Lower end of its 95 % interval.", examples=[-0.034])
    high: float = Field(description="Upper end of its 95 % interval.", examples=[-0.008])
    p: float = Field(description="p-value, corrected for the number of groups.", examples=[0.006])
    worse: bool = Field(
        description="True if p is below 0.05 and the group is retrieved worse.", examples=[True]
    )


class Audit(BaseModel):
    """Findings of an audit; null for what was not looked at."""

    read_at: str = Field(description="UTC, ISO 8601.", examples=[example.TIME])
    generation: int = Field(description="Of the collection, when it was read.", examples=[239])
    images: int = Field(description="Number of images that were audited.", examples=[13549])
    duplicates: DuplicateFindings = Field(description="Groups of duplicates and near-duplicates.")
    leaks: LeakFindings | None = Field(
        description="Leaks between the parts of a split; null if none was named."
    )
    labels: LabelFindings | None = Field(description="Suspect labels; null if no label was named.")
    outliers: OutlierFindings = Field(description="Images that are unlike the rest.")
    drift: DriftFindings = Field(description="Changes of sources over time.")
    coverage: CoverageFindings = Field(description="Counts of labels and patients.")
    groups: list[GroupFinding] | None = Field(
        description="Retrieval quality of groups of images; null if no label was named."
    )


class AuditRequest(BaseModel):
    """Options of an audit."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"label": "modality"}]})

    collection: str | None = Field(default=None, description="Name of the collection.", examples=["knees"])
    label: str | None = Field(
        default=None, description="Label whose errors are looked for; null: none.", examples=["anatomy"]
    )
    split: str | None = Field(
        default=None,
        description="Label that names the part of a split, such as train and test; null: no leaks are looked for.",
        examples=["part"],
    )
    source: str | None = Field(
        default=None,
        description="Label that names where an image came from; null: `source`, or the folder of the file.",
        examples=["source"],
    )
    groups: list[str] = Field(
        default=[],
        description="Labels whose values are compared in retrieval quality, besides sex, age and scanner.",
        examples=[["ward"]],
        max_length=20,
    )


class AuditState(BaseModel):
    """The latest audit of a collection, and the job that makes the next one."""

    state: Literal["none", "computing", "ready", "failed"] = Field(
        description='"none": there has been no audit; "computing": a job makes one; "ready"; "failed": see `error`.',
        examples=["ready"],
    )
    job: str | None = Field(
        description="Name of the latest job, if this service knows it.", examples=[example.JOB]
    )
    done: int = Field(description="Progress of the job in a thousandth.", examples=[1000])
    total: int | None = Field(description="1000; null without a job.", examples=[1000])
    error: str | None = Field(description="Why the latest job failed.", examples=[None])
    changed: bool = Field(description="True if the collection has changed since the audit.", examples=[False])
    corrected: dict[str, str] = Field(
        default={},
        description="Values that labels of listed suspects have now, by image id, where they were changed since the "
        "audit; empty for a label that was removed.",
        examples=[{example.IMAGE_ID: "abdomen"}],
    )
    audit: Audit | None = Field(description="The audit before, while another is computed; null without one.")


class QuarantinedItem(BaseModel):
    """An image that the intake check keeps out."""

    image_id: str = Field(description="Id that it gets when it is released.", examples=[example.IMAGE_ID])
    findings: list[str] = Field(
        description='Why: "text" (in the pixels), "blank", "damaged", "inverted", "modality" (looks like another), '
        '"unlike" (the collection).',
        examples=[["text"]],
    )
    width: int = Field(description="Width in pixels.", examples=[512])
    height: int = Field(description="Height in pixels.", examples=[512])
    at: str = Field(description="Time when it came, UTC.", examples=["2026-11-23T08:00:00+00:00"])


class QuarantinePage(BaseModel):
    """A page of the quarantine."""

    items: list[QuarantinedItem] = Field(description="Images by id.")
    next: str | None = Field(description="`cursor` of the next page; null on the last.", examples=[None])
