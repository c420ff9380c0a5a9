"""Responses of the annotation server about what was judged."""

from typing import Literal

from pydantic import BaseModel, Field

from cbir.search import example_values as example
from service.features.annotate.study_messages import ANSWER_NAME
from service.http import request_params

MAX_LIMIT = 100  # answers in a response


class ReviewParameters(request_params.Parameters):
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


class AgreementInReview(BaseModel):
    """Agreement of all people on pairs, or on images."""

    people: int = Field(description="Number of annotators.", examples=[2])
    pairs: int = Field(
        description="Number of pairs, or images, that two or more of them judged.", examples=[10]
    )
    alpha: float | None = Field(
        description="Krippendorff's ordinal alpha; null if it is not defined.", examples=[0.81]
    )
    alpha_nominal: float | None = Field(
        description="Krippendorff's nominal alpha; null if it is not defined.", examples=[0.7]
    )
    between: list[TwoPeopleAgreement] = Field(description="Agreement of each two people.")


class StudyAgreement(BaseModel):
    """Agreement of the annotators of a study."""

    judgements: AgreementInReview = Field(description="Agreement on pairs.")
    grades: AgreementInReview = Field(description="Agreement on single images.")
