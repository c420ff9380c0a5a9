"""What an audit found, as `audit.json`, the API and the page have it: ids of images, no files and no patients."""

from datetime import date

from pydantic import BaseModel, Field


class SuspectLabel(BaseModel):
    """A label that is probably wrong."""

    image_id: str
    label: str
    suggested: str = Field(description="The likeliest other value.")
    suspicion: float = Field(description="From 0 to 1; above 0.5 if the other value is likelier.", ge=0, le=1)
    neighbours: list[str] = Field(description="Nearest images of other patients that have the other value.")


class LabelConfusion(BaseModel):
    """How many suspect labels of one value look like another."""

    label: str
    suggested: str
    images: int


class LabelFindings(BaseModel):
    """Suspect labels."""

    key: str
    judged: int = Field(description="Images with the label.")
    suspects: int = Field(description="Labels with a suspicion above 0.5.")
    rare: list[str] = Field(description="Values of too few independent images to judge.")
    confusions: list[LabelConfusion]
    items: list[SuspectLabel] = Field(description="The most suspicious first.")


class AuditCopy(BaseModel):
    """A member of a group of duplicates."""

    image_id: str
    change: str = Field(description="What was done to the first of the group, which is the reference.")


class DuplicateFindings(BaseModel):
    """Duplicates and near-duplicates."""

    groups: int
    images: int = Field(description="Images in groups.")
    unread: int = Field(description="Images without a readable file, compared by their content alone.")
    items: list[list[AuditCopy]] = Field(description="Groups, each from its reference on.")


class LeakedCopy(BaseModel):
    """An image of a leak, and the part of the split that it is in."""

    image_id: str
    part: str


class AuditLeak(BaseModel):
    """Images of several parts that belong together."""

    kind: str = Field(description="patient, study, picture or near-duplicate")
    images: list[LeakedCopy]


class LeakFindings(BaseModel):
    """Leaks between the parts of a split."""

    key: str
    counts: dict[str, int] = Field(description="Number of leaks of each kind.")
    items: list[AuditLeak]


class AuditOutlier(BaseModel):
    """An image unlike the rest."""

    image_id: str
    likeness: float = Field(
        description="Share of the images that are at least as far from their neighbours.", ge=0, le=1
    )


class OutlierFindings(BaseModel):
    """Images unlike the rest."""

    images: int
    items: list[AuditOutlier] = Field(description="The least like the rest first.")


class DriftWeek(BaseModel):
    """A check of a source at the end of a week."""

    monday: date
    images: int = Field(description="Images added in the week.")
    p: float = Field(description="p-value of the hypothesis that nothing has changed.", ge=0, le=1)
    alarm: bool
    image_ids: list[str] = Field(description="The least expected new images, if there is an alarm.")


class DriftSource(BaseModel):
    """Weekly checks of a source."""

    source: str
    images: int
    alarms: int
    weeks: list[DriftWeek] = Field(
        description="The oldest first; none if images were added in too few weeks."
    )


class DriftFindings(BaseModel):
    """Sources over time."""

    key: str | None = Field(description="Label that names the source; null: the folder of the file does.")
    threshold: float = Field(
        description="p-value of an alarm: one false alarm a year is expected of all sources."
    )
    alarms: int
    sources: list[DriftSource]


class CoverageValue(BaseModel):
    """A value of a label."""

    value: str
    images: int
    patients: int | None = Field(description="Different patients; null if no image names one.")
    thin: bool = Field(description="True for fewer than 20 images or 5 patients.")


class CoverageLabel(BaseModel):
    """A label with its values, the most frequent first."""

    key: str
    unlabelled: int
    values: list[CoverageValue]


class CoverageFindings(BaseModel):
    """What the collection holds."""

    patients: int
    without_patient: int
    thin: int
    labels: list[CoverageLabel]


class GroupFinding(BaseModel):
    """Retrieval quality of a group of images, compared with others of the same labels."""

    key: str
    value: str
    images: int
    patients: int
    precision: float = Field(description="Mean share of the first ten answers that have the image's label.")
    difference: float = Field(description="To other images of the same label.")
    low: float = Field(description="Lower end of its 95 % interval.")
    high: float
    p: float = Field(description="p-value, corrected for the number of groups.")
    worse: bool = Field(description="True if p is below 0.05 and the group is retrieved worse.")


class Audit(BaseModel):
    """Findings of an audit; null for what was not looked at."""

    made: str = Field(description="UTC, ISO 8601.")
    generation: int = Field(description="Of the collection, when it was read.")
    images: int
    duplicates: DuplicateFindings
    leaks: LeakFindings | None
    labels: LabelFindings | None
    outliers: OutlierFindings
    drift: DriftFindings
    coverage: CoverageFindings
    groups: list[GroupFinding] | None
