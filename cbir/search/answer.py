"""Answers to searches: messages of the HTTP API, and in Python sequences of hits."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from pydantic import BaseModel, Field, PrivateAttr

from cbir.errors import InvalidInput
from cbir.search import example_values as example
from cbir.search.contact_sheet import render_cards, style_element
from cbir.search.picture_facts import EncodedPicture, EncodedPixels
from cbir.search.search_models import Card, Hit, QueryOrigin
from cbir.system.remedies import install_command

if TYPE_CHECKING:
    from pandas import DataFrame

    from cbir.rerank.ranked import Ranked

ReadPicture = Callable[[str], bytes | None]
MOST_CARDS = 60  # in a notebook, which keeps their pictures
COLUMNS = ("rank", "image_id", "score", "distance", "source", "patient")
GROUP_COLUMNS = ("group", "more")  # of a search with groups, after the others


class QueryFacts(BaseModel):
    """Facts about the query."""

    image_id: str | None = Field(
        description="Id of the same picture in the collection, which is left out of the results; null if it has "
        "none.",
        examples=[example.IMAGE_ID],
    )
    patient: str | None = Field(
        default=None,
        description="Key of the patient of an image of the collection, as results have it; null if unknown. That of "
        "a DICOM file is given with `include=cards` where results are of that patient, and counts towards "
        "`identifiers_per_hour`.",
        examples=[None],
    )
    width: int = Field(description="Width of the query in pixels; 0 for a text or vector.", examples=[512])
    height: int = Field(description="Height of the query in pixels; 0 for a text or vector.", examples=[512])
    format: str = Field(
        description='Format of the file; "text" or "vector" for a search by those.', examples=["dicom"]
    )
    frame: int | None = Field(
        description="Frame that was searched with, from 1; null for the only one.", examples=[None]
    )
    likeness: float | None = Field(
        default=None,
        description="How like the searched images the query is, from 0 to 1: the share of images of the collection "
        "whose nearest other is at least as far as the nearest image found. Null for a text, where there is "
        "nothing to compare with, and where another site has a nearer image.",
        examples=[0.42],
    )
    outlier: bool | None = Field(
        default=None,
        description="Whether nothing found looks like the query: its likeness is at most 0.01, as that of one in a "
        "hundred images of the collection. Null where the likeness is.",
        examples=[False],
    )
    card: Card | None = Field(
        default=None,
        description="What a card shows of the query, for an image of the collection; null unless `include` names "
        "cards.",
    )
    rendering: EncodedPicture | None = Field(
        default=None, description="Picture of an uploaded query; null unless `include` names rendering."
    )
    pixels: EncodedPixels | None = Field(
        default=None, description="Pixel values of an uploaded query; null unless `include` names pixels."
    )
    vector: list[list[float]] | None = Field(
        default=None,
        description="Vectors of the uploaded files, which later searches send as `vector` in place of the files, "
        "with `profile` and `origin`; null unless `include` names vector.",
        examples=[[[0.12, 0.0, 3.5]]],
    )
    profile: str | None = Field(
        default=None,
        description="Hash of the profile that computed `vector`; null without.",
        examples=["3f1c9d0a"],
    )
    origin: list[QueryOrigin] | None = Field(
        default=None, description="What is known of each file beside its vector; null without `vector`."
    )


class RerankFacts(BaseModel):
    """Re-ranking method of an answer, and the part of the collection that it re-ranked."""

    method: str = Field(description="Name of the re-ranker that was used.", examples=["aqe"])
    parameters: dict[str, Any] = Field(
        description="Values of all its parameters.", examples=[{"P": 10, "alpha": 3.0}]
    )
    scope: str = Field(
        description="Images that were re-ranked, for example collection for all of them.",
        examples=["collection"],
    )
    notes: tuple[str, ...] = Field(
        description="What could not be done as requested, in sentences.", examples=[[]]
    )
    reason: str = Field(
        default="",
        description="Why `auto` chose this method; empty for a method that the request names.",
        examples=[""],
    )
    index: str = Field(
        default="",
        description="Index that found the nearest images: flat, ivf, hnsw, pgvector or milvus; empty for none.",
        examples=["flat"],
    )

    @classmethod
    def of_ranked(cls, ranked: "Ranked") -> "RerankFacts":
        """Return how images were ranked."""
        return cls(**{name: getattr(ranked, name) for name in cls.model_fields})


class LabelAgreement(BaseModel):
    """Label value that most of the first answers have. It describes images of the collection, not the query."""

    key: str = Field(description="Label key.", examples=["modality"])
    value: str = Field(
        description="The most frequent value; on a tie that of the better rank.", examples=["CT"]
    )
    agreeing: int = Field(description="Number of answers with this value.", examples=[8])
    answers: int = Field(description="Number of answers that were looked at, at most 10.", examples=[10])
    right: float | None = Field(
        default=None,
        description="Share of searches with images of the collection itself that agreed as much on this value and "
        "whose own label it was, from 0 to 1. Null where there is too little evidence: fewer than 20 such searches, "
        "other methods than `auto`, filters, thresholds, examples or judgements, groups of another kind than one "
        "image of each patient, and outliers.",
        examples=[0.91],
    )
    low: float | None = Field(
        default=None,
        description="Lower end of the 95 % interval of `right`; null without it.",
        examples=[0.84],
    )
    high: float | None = Field(
        default=None, description="Upper end of that interval; null without it.", examples=[0.95]
    )
    images: int | None = Field(
        default=None, description="Number of these searches; null where it was not measured.", examples=[132]
    )
    counted: Literal["", "value", "group"] = Field(
        default="",
        description="Whether the searches are those that agreed on this value, or those that agreed on any value "
        "with too few searches of its own, among images of this modality and body part; empty without `right`.",
        examples=["value"],
    )


class SiteReport(BaseModel):
    """Part of a site in an answer."""

    name: str | None = Field(description="Name of the site; null for this service.", examples=["north"])
    images: int | None = Field(
        description="Number of images that it says it has searched among; null where it gave no answer.",
        examples=[24000],
    )
    results: int = Field(description="Number of its images among the results.", examples=[7])
    problem: str = Field(
        description="Why it gave no answer that can be used; empty otherwise.", examples=[""]
    )
    notes: list[str] = Field(description="What was left out of its answer, in sentences.", examples=[[]])
    milliseconds: float = Field(
        description="Time until its answer, or until it was given up.", examples=[38.2]
    )


class ListBefore(BaseModel):
    """Answer without re-ranking and judgements."""

    results: list[Hit] = Field(description="Images nearest to the query, at most `k` or those of `k` groups.")
    depth: int = Field(
        description="Number of results among which `rank_before` was looked up.", examples=[100]
    )


class Grouping(BaseModel):
    """Facts about the groups of an answer."""

    by: str = Field(description="The parameter `group_by`.", examples=["study"])
    size: int = Field(description="Most results of a group.", examples=[1])
    depth: int = Field(
        description="Number of images, best first, among which groups were looked for and their images counted.",
        examples=[200],
    )


class Answer(BaseModel):
    """Answer to a search."""

    query: QueryFacts = Field(description="What was searched with.")
    rerank: RerankFacts = Field(description="The re-ranking that was done.")
    results: list[Hit] = Field(
        description="Similar images, best first; at most `k`, or with `group_by` those of at most `k` groups, the "
        "images of a group one after another."
    )
    timings_ms: dict[str, float] = Field(
        description="Duration of each stage in milliseconds.", examples=[{"search": 2.6, "total": 10.8}]
    )
    agreement: list[LabelAgreement] = Field(
        default=[],
        description="The most frequent value of each label of the first ten results, the most agreed first.",
    )
    sites: list[SiteReport] | None = Field(
        default=None,
        description="This service and the others that were asked, in their order; null unless others were asked.",
    )
    grouping: Grouping | None = Field(
        default=None, description="How the results were grouped; null without `group_by`."
    )
    before: ListBefore | None = Field(
        default=None,
        description="The answer without re-ranking; null unless `include` names before, and where there was none.",
    )
    extras: dict[str, Any] = Field(
        default={},
        description="What `include` asked features for, by name; null where a feature has none for this query.",
        examples=[{}],
    )

    _read_picture: ReadPicture | None = PrivateAttr(default=None)

    def with_pictures(self, read_picture: ReadPicture) -> Self:
        """Set the function that returns the JPEG of an image id, or None; return the hits."""
        self._read_picture = read_picture
        return self

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Hit]:  # type: ignore[override]  # pydantic iterates over the fields
        return iter(self.results)

    @overload
    def __getitem__(self, index: int) -> Hit: ...

    @overload
    def __getitem__(self, index: slice) -> list[Hit]: ...

    def __getitem__(self, index: int | slice) -> Hit | list[Hit]:
        return self.results[index]

    def __repr__(self) -> str:
        rows = [
            f"  {hit.rank:3} {hit.image_id} {hit.score:z.4f} {_label_text(hit)}".rstrip() for hit in self[:20]
        ]
        rows += ["  ..."] if len(self) > 20 else []
        return "\n".join([f"<{len(self)} hits by {self.rerank.method}>", *rows])

    __str__ = __repr__

    def to_pandas(self) -> "DataFrame":
        """Return a row for each hit: its facts, with the patient key, and a column for each label.

        A search with groups has the columns `group` and `more`, the number of further images of the group. A label
        with the name of another column becomes `label:NAME`. Raises InvalidInput without pandas.
        """
        try:
            from pandas import DataFrame
        except ModuleNotFoundError as error:
            raise InvalidInput(f"to_pandas needs pandas: {install_command('pandas')}") from error
        keys = dict.fromkeys(key for hit in self for key in hit.labels)
        columns = (*COLUMNS, *GROUP_COLUMNS) if self.grouping else COLUMNS
        rows = [
            {column: getattr(hit, column) for column in COLUMNS}
            | ({"group": hit.group.key, "more": hit.group.more} if hit.group else {})
            | {(f"label:{key}" if key in columns else key): hit.labels.get(key) for key in keys}
            for hit in self
        ]
        return DataFrame(rows, columns=None if rows else list(columns))

    def picture(self, hit: Hit) -> bytes | None:
        """Return the JPEG of a hit, at most 256 pixels wide and high; None where there is none."""
        try:
            return self._read_picture(hit.image_id) if self._read_picture else None
        except Exception:  # deleted, unreachable or closed meanwhile: hits are shown without pictures then
            return None

    def __getstate__(self) -> dict[Any, Any]:
        """Return the state to pickle or copy, without the open collection that pictures come from."""
        return super().__getstate__() | {"__pydantic_private__": {"_read_picture": None}}

    def _repr_html_(self) -> str:
        more = f"<p>and {len(self) - MOST_CARDS} more</p>" if len(self) > MOST_CARDS else ""
        return f"{style_element()}{render_cards(self[:MOST_CARDS], self.picture)}{more}"


Hits = Answer  # its name in `import cbir`


def _label_text(hit: Hit) -> str:
    return " ".join(f"{key}={value}" for key, value in hit.labels.items())
