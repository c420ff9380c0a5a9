"""Messages of explanations of results."""

from typing import Literal

from pydantic import BaseModel, Field

from cbir.search import example_values as example

Places = list[list[float]]


class ResultExplanation(BaseModel):
    """Why an image is similar to the query."""

    image_id: str = Field(description="Id of the result.", examples=[example.OTHER_IMAGE_ID])
    query_map: Places | None = Field(
        default=None,
        description="How well each place of the query matches the best one of the result, from 0 to 1: rows from the "
        "top, which cover the whole image; 0 outside of the region. Null where the kind is parts.",
        examples=[[[0.1, 0.8], [0.0, 0.4]]],
    )
    answer_map: Places | None = Field(
        default=None,
        description="The same of the result.",
        examples=[[[0.7, 0.2], [0.1, 0.3]]],
    )
    shares: dict[str, float] | None = Field(
        default=None,
        description="Share of each part of the descriptor in the squared distance, which add up to 1; all 0 for "
        "equal vectors. Null where the kind is places.",
    )
    query_edges: list[list[list[float]]] | None = Field(
        default=None,
        description="Shares of vertical, horizontal, 45 degrees, 135 degrees and other edges in each of 4 x 4 parts "
        "of the query, rows from the top. Null for descriptors without edges.",
    )
    answer_edges: list[list[list[float]]] | None = Field(default=None, description="The same of the result.")
    problem: str | None = Field(
        default=None, description="Why there is no explanation of this result; null if there is one."
    )


class Explanations(BaseModel):
    """Why images are similar to the query. It shows what the search used, and is no diagnosis."""

    kind: Literal["places", "parts"] = Field(
        description="places: maps of what matches, for encoders. parts: shares of the descriptor's parts, such as "
        "colour, texture and edges of huang2012.",
        examples=["places"],
    )
    items: list[ResultExplanation] = Field(description="In the order of the ids in the request.")
