"""Messages between the page of a reader study and the service: sides only, never which method is where."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_NOTE = 2000
MAX_SECONDS = 24 * 3600.0

Useful = Annotated[int, Field(ge=1, le=5)]
Side = Literal["left", "equal", "right"]


class ReaderStart(BaseModel):
    """A reader opens the study; `reader` is needed where people do not log in."""

    model_config = ConfigDict(extra="forbid")

    reader: Annotated[int | None, Field(ge=1)] = None


class SidedAnswer(ReaderStart):
    """Answer to an item, as the reader sees it."""

    item: Annotated[int, Field(ge=1)]
    useful_left: Useful
    useful_right: Useful
    better: Side
    relevant: Annotated[dict[Annotated[str, Field(max_length=64)], bool], Field(max_length=100)] = {}
    note: Annotated[str, Field(max_length=MAX_NOTE)] = ""
    seconds: Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)] = 0.0


class SidedItem(BaseModel):
    """Item of a study in the order of its reader; image ids are "-" where a patient was erased."""

    item: int
    query: str
    left: list[str]
    right: list[str]
    answer: SidedAnswer | None


class ReaderItems(BaseModel):
    """A study as one reader sees it."""

    reader: int
    collection: str
    judge_images: bool
    items: list[SidedItem]
