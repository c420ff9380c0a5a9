"""Requests and responses about saved cases and cohorts."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints

from cbir.search import MAX_TEXT, ImageId, Judgements, Links
from cbir.search import example_values as example
from cbir.search.search_models import Card, LabelsLeftOut

MAX_TITLE = 200  # characters
MAX_NOTE = 10_000
MAX_ANSWERS = 200
MAX_ROUNDS = 50
CASE_ID = "c81f0d52a9b3476e"  # of examples
COHORT_ID = "5b0c9e7d31f2a846"  # of examples
MAX_JUDGED = 1000  # images of one request
MAX_BATCH = 200
MAX_CONDITIONS = 32

Title = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_TITLE),
    Field(description=f"Title, 1 to {MAX_TITLE} characters.", examples=["Knee, severe osteoarthritis"]),
]
Note = Annotated[
    str,
    Field(
        max_length=MAX_NOTE,
        description=f"Note in plain text, at most {MAX_NOTE} characters; an empty line begins a paragraph.",
        examples=["Joint space narrowing on the medial side."],
    ),
]
Outlier = Annotated[
    bool,
    Field(
        description="Whether nothing found looked like the query, as `query.outlier` of the search said.",
        examples=[False],
    ),
]
Verdict = Annotated[
    str,
    Field(
        max_length=MAX_NOTE,
        description="What the page said of the results together, in its language then; empty where a result is left "
        "out, since it spoke of that one too, and for others with a filter.",
        examples=["8 of the 10 nearest are labelled “severe”"],
    ),
]
Shared = Annotated[
    bool,
    Field(
        description="Whether every caller who may use the collection sees the case; otherwise its owner and "
        "administrators only.",
        examples=[False],
    ),
]
# What the collection says of an image now.
CurrentLabels = Annotated[
    dict[str, str], Field(description="Labels of the image.", examples=[example.LABELS])
]
OwnCard = Annotated[
    Card | None, Field(description="What a card shows of the image; null unless `cards` is set.")
]
CurrentLinks = Annotated[Links, Field(description="Addresses of the image.")]
Name = Annotated[str, Field(max_length=255)]
Pixels = Annotated[int, Field(ge=0, le=2**31 - 1)]
ExportFormat = Literal["csv", "dicom", "monai", "coco", "label-studio"]
ImageIds = Annotated[list[ImageId], Field(max_length=MAX_JUDGED)]


class CaseSearch(BaseModel):
    """Parameters of the search, by their names; without `image_id` and `text` it is an uploaded image."""

    model_config = ConfigDict(extra="forbid")

    image_id: ImageId | None = Field(
        default=None, description="Id of the query in the collection.", examples=[example.IMAGE_ID]
    )
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)] | None = Field(
        default=None, description="Words that were searched with.", examples=[None]
    )
    region: tuple[Pixels, Pixels, Pixels, Pixels] | None = Field(
        default=None,
        description="Part of the query, as x, y, width and height in pixels. Of an uploaded image it refers to the "
        "stored picture in answers, and to the file in requests.",
        examples=[[40, 60, 120, 80]],
    )
    frame: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Frame of the uploaded file, from 1.", examples=[None]
    )
    window: tuple[FiniteFloat, Annotated[FiniteFloat, Field(gt=0)]] | None = Field(
        default=None,
        description="Window of the uploaded file, as center and width. The stored picture is in this window.",
        examples=[None],
    )
    k: int = Field(default=20, ge=1, le=100_000, description="Number of results.", examples=[20])
    rerank: Name | None = Field(
        default=None,
        description="Name of the re-ranker, or `auto`; null for that of the service.",
        examples=["auto"],
    )
    parameters: Annotated[dict[str, FiniteFloat | Name], Field(max_length=32)] = Field(
        default={}, description="Parameters of the re-ranker that were set.", examples=[{"P": 9}]
    )
    where: Annotated[list[Annotated[str, Field(max_length=2000)]], Field(max_length=32)] = Field(
        default=[], description="Conditions on labels.", examples=[["modality=CR"]]
    )
    group_by: Name | None = Field(default=None, description="How results were grouped.", examples=["patient"])
    exclude_own_study: bool = Field(
        default=False, description="Whether images of the query's own study were left out.", examples=[True]
    )


class CaseAnswer(BaseModel):
    """A result as it was when the case was saved."""

    model_config = ConfigDict(extra="forbid")

    rank: int = Field(ge=1, description="Position in the results, from 1.", examples=[1])
    image_id: ImageId = Field(description="Id of the image.", examples=[example.OTHER_IMAGE_ID])
    score: FiniteFloat = Field(description="Score that the re-ranker gave.", examples=[0.93])
    distance: FiniteFloat = Field(description="Distance from the query.", examples=[0.51])


class CaseContent(BaseModel):
    """Search of a case: its query and parameters, judgements and results."""

    model_config = ConfigDict(extra="forbid")

    search: CaseSearch = Field(description="What was searched with.")
    rounds: Annotated[list[Judgements], Field(max_length=MAX_ROUNDS)] = Field(
        default=[],
        description="Judgements of each round, all of them that held after it.",
        examples=[[[{"image_id": example.OTHER_IMAGE_ID, "relevance": 1}]]],
    )
    marks: Judgements = Field(
        default=[],
        description="Judgements of images as they are shown; with those that no round has used yet.",
    )
    method: Name = Field(
        default="", description="Name of the re-ranker that was used.", examples=["diffusion"]
    )
    outlier: Outlier = False
    verdict: Verdict = ""
    answers: Annotated[list[CaseAnswer], Field(max_length=MAX_ANSWERS)] = Field(
        default=[], description=f"Results, best first; at most {MAX_ANSWERS}."
    )

    def image_ids(self) -> set[str]:
        """Return the ids of all images that results and judgements name."""
        judged = {judgement.image_id for judgements in (*self.rounds, self.marks) for judgement in judgements}
        return judged | {answer.image_id for answer in self.answers}

    def only(self, keep: Callable[[str], bool]) -> Self:
        """Return the content with the results and judgements of the images for whose ids `keep` is true."""
        rounds = [[judgement for judgement in judged if keep(judgement.image_id)] for judged in self.rounds]
        answers = [answer for answer in self.answers if keep(answer.image_id)]
        return self.model_copy(
            update={
                "rounds": [judged for judged in rounds if judged],
                "marks": [judgement for judgement in self.marks if keep(judgement.image_id)],
                "answers": answers,
                "verdict": self.verdict if len(answers) == len(self.answers) else "",
            }
        )


class NewCase(CaseContent):
    """Case to save."""

    title: Title
    note: Note = ""
    shared: Shared = False


class SavedChange(BaseModel):
    """Change of a saved case or cohort; what is absent stays."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"shared": True}]})

    title: Title | None = Field(default=None, description="New title.", examples=["Knee, follow-up"])
    note: Note | None = Field(
        default=None,
        description="New note in plain text; the old one is replaced.",
        examples=["Compare with the left knee."],
    )
    shared: bool | None = Field(
        default=None, description="Whether every caller who may use the collection sees it.", examples=[True]
    )

    def values(self) -> dict[str, Any]:
        """Return the new values by name."""
        return self.model_dump(exclude_none=True)


class CaseChange(SavedChange):
    """Change of a case; what is absent stays."""


class CohortChange(SavedChange):
    """Change of a cohort; what is absent stays."""


class CaseSummary(BaseModel):
    """Facts about a saved case."""

    id: str = Field(description="Id of the case.", examples=[CASE_ID])
    title: Title
    note: Note
    shared: Shared
    collection: str = Field(description="Name of the collection that was searched.", examples=["knees"])
    owner: str = Field(
        description="Who saved the case: a user, a token by its id, or service where no tokens are needed.",
        examples=["user alice"],
    )
    mine: bool = Field(
        description="Whether the caller is the owner, who alone can change it.", examples=[True]
    )
    created: str = Field(description="Time of saving (ISO 8601, UTC).", examples=[example.TIME])
    changed: str = Field(description="Time of the last change (ISO 8601, UTC).", examples=[example.TIME])
    picture: str | None = Field(
        description="Address of a picture of the query; null for words, and where the image is gone.",
        examples=[f"/v1/cases/{CASE_ID}/picture"],
    )


class CasePage(BaseModel):
    """One page of saved cases."""

    items: list[CaseSummary] = Field(description="Cases, the one that was saved last first.")
    next: str | None = Field(description="`cursor` of the next page; null on the last one.", examples=["41"])


class CaseHit(CaseAnswer):
    """A result of a case, with what the collection says of the image now."""

    model_config = ConfigDict(extra="ignore")

    labels: CurrentLabels
    labels_left_out: LabelsLeftOut = False
    links: CurrentLinks


class SavedCase(CaseSummary):
    """Saved case. Images that were deleted, or that the caller may not see, are left out everywhere."""

    search: CaseSearch = Field(description="What was searched with.")
    rounds: list[Judgements] = Field(description="Judgements of each round, all of them that held after it.")
    marks: Judgements = Field(description="Judgements as they were shown.")
    method: str = Field(description="Name of the re-ranker that was used.", examples=["diffusion"])
    outlier: Outlier
    verdict: Verdict
    answers: list[CaseHit] = Field(description="Results as they were, best first.")
    missing: int = Field(
        description="Number of results that are left out, since the image is gone or hidden from the caller.",
        examples=[0],
    )


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
    labels: CurrentLabels
    labels_left_out: LabelsLeftOut = False
    links: CurrentLinks
    card: OwnCard = None


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
    labels: CurrentLabels
    labels_left_out: LabelsLeftOut = False
    links: CurrentLinks
    card: OwnCard = None


class CohortBatch(BaseModel):
    """Images to judge next, and how far the cohort is."""

    items: list[NextImage] = Field(description="Images, the most probable first; none if all are judged.")
    estimate: CohortEstimate = Field(description="How many images are missing.")
