"""Requests and responses of the annotation server: what to judge, answers, progress, review and agreement."""

from typing import Literal

from pydantic import BaseModel, Field, FiniteFloat

from cbir.search import example_values as example
from service.features.annotate.active.judgement_journal import ImageId, Name, PairAnswer
from service.http import request_params

ANSWER_NAME = "3f0c8a52-6d1e-4b7a-9c44-0a5e7d2b1f36"
MAX_COUNT = 100  # pairs or images in a response
WHO = Field(
    None,
    description="Name of the annotator, for use without tokens; a token's own name takes its place.",
    examples=["Dr. Ada"],
)
ANSWER = Field(
    description="Id of the answer that the sender made; a retry has the same.", examples=[ANSWER_NAME]
)
SECONDS = Field(description="Seconds from showing to the answer, without pauses, 0 to 86400.", examples=[1.4])
MAX_LIMIT = 100  # answers in a response


class StudyParameters(request_params.Parameters):
    """Query that names a study."""

    study: str | None = Field(
        None,
        max_length=255,
        description="Name of the study; it may be left out where there is one.",
        examples=["knees"],
    )
    study_id: str | None = Field(
        None,
        max_length=255,
        description="Id of the study, from study.json: a request about a study with another id is refused.",
        examples=["5c0e9a1b7d24f386"],
    )


class NextParameters(StudyParameters):
    """Query of the next pairs or images."""

    who: str | None = WHO
    count: int = Field(8, ge=1, le=MAX_COUNT, description="Maximum number of them.", examples=[4])


class _AnswerRequest(request_params.Parameters):
    name: Name = ANSWER
    who: str | None = WHO
    seconds: float = SECONDS


class JudgementRequest(_AnswerRequest):
    """A judgement of a pair."""

    first: ImageId = Field(description="Image on the left.", examples=[example.IMAGE_ID])
    second: ImageId = Field(description="Image on the right.", examples=[example.OTHER_IMAGE_ID])
    answer: PairAnswer = Field(
        description="The more severe image, alike, or skip for no answer. A later answer of the same person about "
        "the same pair replaces this one.",
        examples=["first"],
    )


class GradeRequest(_AnswerRequest):
    """A grade of one image."""

    image: ImageId = Field(description="Id of the image.", examples=[example.IMAGE_ID])
    grade: FiniteFloat | None = Field(
        description="One of the grades of the study; null if the person cannot judge the image.", examples=[2]
    )


class UndoRequest(request_params.Parameters):
    """Withdrawal of a judgement or grade."""

    name: Name = ANSWER
    who: str | None = WHO
    undoes: Name = Field(
        description="Id of the withdrawn answer, which is one of the same person.", examples=[ANSWER_NAME]
    )


class StudyProgress(BaseModel):
    """Progress of a study."""

    round: int = Field(description="Number of the current round, from 1.", examples=[2])
    rounds: int = Field(description="Number of rounds of the plan.", examples=[6])
    done: int = Field(description="Judged or skipped pairs of the current round.", examples=[12])
    of: int = Field(description="Pairs of the current round.", examples=[40])
    judged: int = Field(description="Pairs that the annotator judged, in all rounds.", examples=[52])
    graded: int = Field(description="Images with a grade of anyone.", examples=[7])
    graded_by_you: int = Field(
        description="Images that the annotator graded, or could not judge.", examples=[3]
    )
    images: int = Field(description="Images of the study.", examples=[200])
    people: int = Field(description="Annotators who judged pairs.", examples=[2])
    learning: Literal["idle", "learning", "failed"] = Field(
        description="State of the training that runs beside the judging.", examples=["idle"]
    )
    learnt: int = Field(
        description="Last round that the latest model was trained on; 0 before the first training, or if it was "
        "trained within the first round.",
        examples=[1],
    )
    trained_on: int = Field(
        description="Answers and undos that the latest model was trained on; 0 before the first training.",
        examples=[41],
    )
    finished: bool = Field(description="True if all rounds are complete.", examples=[False])


class AnswerReceipt(BaseModel):
    """Acknowledgement of an answer, which is on disk."""

    who: str = Field(description="Name of the annotator.", examples=["Dr. Ada"])
    progress: StudyProgress = Field(description="Progress of the study with this answer.")


class NextPair(BaseModel):
    """A pair to judge."""

    first: str = Field(description="Image to show on the left.", examples=[example.IMAGE_ID])
    second: str = Field(description="Image to show on the right.", examples=[example.OTHER_IMAGE_ID])


class GivenAnswer(BaseModel):
    """An answer that can be undone: one about a pair has `first` and `second`, a grade has `image`."""

    name: str = Field(description="Id of the answer.", examples=[ANSWER_NAME])
    seconds: float = Field(description="Seconds that it took.", examples=[1.4])
    first: str | None = Field(None, description="Left image of the pair.", examples=[example.IMAGE_ID])
    second: str | None = Field(
        None, description="Right image of the pair.", examples=[example.OTHER_IMAGE_ID]
    )
    image: str | None = Field(None, description="Graded image.", examples=[None])


class PairAgreement(BaseModel):
    """Agreement on the pairs, or images, that several people judged."""

    people: int = Field(description="Number of annotators.", examples=[2])
    pairs: int = Field(
        description="Number of pairs, or images, that two or more of them judged.", examples=[10]
    )
    alpha: float | None = Field(
        description="Krippendorff's ordinal alpha; null if it is not defined.", examples=[0.81]
    )


class _NextForPerson(BaseModel):
    who: str = Field(description="Name of the annotator.", examples=["Dr. Ada"])
    history: list[GivenAnswer] = Field(description="Latest answers of the person, oldest first, at most 50.")
    progress: StudyProgress = Field(description="Progress of the study.")


class NextPairs(_NextForPerson):
    """A person's next pairs."""

    pairs: list[NextPair] = Field(description="Pairs to judge, in this order.")
    grades: dict[str, float] = Field(
        description="Grades that the person gave, by image.", examples=[{example.IMAGE_ID: 2.0}]
    )
    agreement: PairAgreement | None = Field(
        description="Agreement of the annotators; null if no pair was judged by two people.", examples=[None]
    )


class NextImages(_NextForPerson):
    """A person's next single images."""

    images: list[str] = Field(description="Images to grade, in this order.", examples=[[example.IMAGE_ID]])
    grades: dict[str, float | None] = Field(
        description="Grades that the person gave, by image; null for those that they could not judge.",
        examples=[{example.IMAGE_ID: 2.0}],
    )


class WrittenSeverity(BaseModel):
    """Result of writing the severity to the collection."""

    label: str = Field(description="Key of the label.", examples=["severity"])
    images: int = Field(description="Number of images that have it.", examples=[200])
    changed: int = Field(description="Number of labels that changed.", examples=[200])
    after: int = Field(description="Last round that the model was trained on.", examples=[3])
    where: list[str] = Field(
        description="Conditions of the images for which the model holds; empty for all.",
        examples=[["source=knee"]],
    )


class ReviewParameters(StudyParameters):
    """Query of answers."""

    judged_by: str | None = Field(None, description="Only answers of this person.", examples=["Dr. Ada"])
    decision: str | None = Field(
        None,
        max_length=40,
        description="Only answers with this decision: first, second, alike or skip about a pair, a grade, or none "
        "for an image that could not be judged.",
        examples=["first"],
    )
    disagreement: Literal["model", "people"] | None = Field(
        None,
        description="Only answers that contradict the latest model, the most surprising first, or other people.",
        examples=["people"],
    )
    offset: int = Field(0, ge=0, description="Number of answers to leave out.", examples=[0])
    limit: int = Field(24, ge=1, le=MAX_LIMIT, description="Maximum number of answers.", examples=[24])


class EarlierAnswer(BaseModel):
    """An answer that a later one of the same person replaced, or that another person gave."""

    name: str = Field(description="Id of the answer.", examples=[ANSWER_NAME])
    who: str = Field(description="Name of the annotator.", examples=["Dr. Bob"])
    at: str = Field(description="Time of the answer (UTC).", examples=[example.TIME])
    decision: str = Field(
        description="first, second, alike, skip, a grade, or none; of the pair in the order of the reviewed answer.",
        examples=["second"],
    )


class AnswerInReview(BaseModel):
    """A valid answer; about a pair it has `first` and `second`, about a single image `image`."""

    name: str = Field(description="Id of the answer.", examples=[ANSWER_NAME])
    kind: Literal["pair", "grade"] = Field(description="What was judged.", examples=["pair"])
    who: str = Field(description="Name of the annotator.", examples=["Dr. Ada"])
    at: str = Field(description="Time of the answer (UTC).", examples=[example.TIME])
    seconds: float = Field(description="Seconds that it took.", examples=[1.4])
    first: str | None = Field(description="Image on the left of the pair.", examples=[example.IMAGE_ID])
    second: str | None = Field(
        description="Image on the right of the pair.", examples=[example.OTHER_IMAGE_ID]
    )
    image: str | None = Field(description="Graded image.", examples=[None])
    decision: str = Field(description="first, second, alike, skip, a grade, or none.", examples=["first"])
    contradicts_model: bool = Field(
        description="True if the latest model prefers the other image of the pair, is sure of a difference where the "
        "answer is alike, or predicts another grade.",
        examples=[False],
    )
    contradicts_people: bool = Field(
        description="True if another person answered otherwise about the same.", examples=[True]
    )
    earlier: list[EarlierAnswer] = Field(
        description="Answers of the same person about the same that this one replaced, oldest first."
    )
    others: list[EarlierAnswer] = Field(description="Valid answers of other people about the same.")


class DecisionCount(BaseModel):
    """Number of answers with a decision."""

    decision: str = Field(description="first, second, alike, skip, a grade, or none.", examples=["first"])
    answers: int = Field(description="Number of valid answers.", examples=[17])


class AnswersInReview(BaseModel):
    """A page of answers."""

    who: str | None = Field(
        description="Name of the caller's token, whose answers the caller may change; null without tokens.",
        examples=["Dr. Ada"],
    )
    total: int = Field(description="Number of matching answers.", examples=[52])
    answers: list[AnswerInReview] = Field(description="Answers, the newest first.")
    people: list[str] = Field(description="All annotators, by name.", examples=[["Dr. Ada", "Dr. Bob"]])
    decisions: list[DecisionCount] = Field(description="All decisions that were taken, with their numbers.")


class TwoPeopleAgreement(BaseModel):
    """Agreement of two people."""

    one: str = Field(description="One person.", examples=["Dr. Ada"])
    other: str = Field(description="The other person.", examples=["Dr. Bob"])
    pairs: int = Field(description="Number of pairs, or images, that both judged.", examples=[10])
    agreed: int = Field(description="Number of them with the same answer.", examples=[8])
    kappa: float | None = Field(
        description="Cohen's kappa, of grades with quadratic weights; null if it is not defined.",
        examples=[0.68],
    )


class AgreementInReview(PairAgreement):
    """Agreement of all people on pairs, or on images."""

    alpha_nominal: float | None = Field(
        description="Krippendorff's nominal alpha; null if it is not defined.", examples=[0.7]
    )
    between: list[TwoPeopleAgreement] = Field(description="Agreement of each two people.")


class StudyAgreement(BaseModel):
    """Agreement of the annotators of a study."""

    judgements: AgreementInReview = Field(description="Agreement on pairs.")
    grades: AgreementInReview = Field(description="Agreement on single images.")
