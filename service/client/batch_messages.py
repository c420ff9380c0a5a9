"""Response to several searches in one request."""

from pydantic import BaseModel, Field

from cbir.search import Answer
from service.client.messages import ProblemDetails


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
