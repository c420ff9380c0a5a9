"""Messages between services: what one asks, and what others answer."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat

from cbir.search import example_values as example

MAX_DIMENSIONS = 65_536
MAX_HITS = 1000
MAX_IMAGES = 10**12
MAX_LABELS = 64  # keys of labels that a site shares
MAX_NAME = 255  # characters of a profile, a re-ranker, a label key
EXAMPLE_HASH = "2f8c1d6e9a0b4c73"
EXAMPLE_TRANSFORM = "9c1185a5c5e9fc54612808977ee8f548"

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
Fingerprint = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


def _require_printable(text: str) -> str:
    if not text.isprintable():  # terminals would obey it
        raise ValueError("must be printable")
    return text


Name = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(_require_printable)]


class SiteProfile(BaseModel):
    """Profile of a site, which others must agree with, and contents of its answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    profile: Name = Field(description="Name of the collection's profile.", examples=["lite0-max"])
    profile_hash: Hash = Field(
        description="Hash of descriptor, weights and metric: vectors of two hashes cannot be compared.",
        examples=[EXAMPLE_HASH],
    )
    transform: Fingerprint = Field(
        description="Fingerprint of the values that vectors are normalised with.",
        examples=[EXAMPLE_TRANSFORM],
    )
    dimensions: int = Field(
        ge=1, le=MAX_DIMENSIONS, description="Number of values of a raw vector.", examples=[1280]
    )
    images: int = Field(
        ge=0, le=MAX_IMAGES, description="Number of images that the token may search among.", examples=[24000]
    )
    labels: Annotated[list[Name], Field(max_length=MAX_LABELS)] = Field(
        description="Keys of the labels that answers contain, and that conditions may name.",
        examples=[["modality"]],
    )
    thumbnails: bool = Field(description="Whether answers contain thumbnails.", examples=[False])
    ids: bool = Field(
        description="Whether answers contain the ids of images; otherwise names made up for the caller.",
        examples=[False],
    )
    results: int = Field(ge=1, le=MAX_HITS, description="Most results of an answer.", examples=[100])


class FederatedHit(BaseModel):
    """An image of another site."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image_id: str = Field(
        pattern=r"^[0-9a-f]{32}(-[0-9]{1,9})?$",
        description="Name of the image for the caller; its id where the site sends ids.",
        examples=[example.IMAGE_ID],
    )
    distance: Annotated[FiniteFloat, Field(ge=0)] = Field(
        description="Euclidean distance from the query, of normalised vectors.", examples=[0.51]
    )
    score: FiniteFloat | None = Field(
        default=None, description="Score of the re-ranker; null without re-ranking.", examples=[None]
    )
    labels: dict[str, str] = Field(
        default={}, description="Labels that the site shares.", examples=[{"modality": "CR"}]
    )
    thumbnail: str | None = Field(
        default=None,
        description="Thumbnail, a JPEG in base64; null where the site sends none.",
        examples=[None],
    )


class FederatedReply(BaseModel):
    """Answer of a site to a search by a vector, best first."""

    model_config = ConfigDict(extra="forbid")

    profile_hash: Hash = Field(description="Hash of the collection's profile.", examples=[EXAMPLE_HASH])
    transform: Fingerprint = Field(description="Fingerprint of its transform.", examples=[EXAMPLE_TRANSFORM])
    images: int = Field(
        ge=0, le=MAX_IMAGES, description="Number of images that were searched among.", examples=[24000]
    )
    method: Name = Field(description="Re-ranker that the site used; none for none.", examples=["none"])
    hits: list[FederatedHit] = Field(description="Similar images, best first.")


class UncheckedReply(FederatedReply):
    """Reply whose hits are still to be checked, one by one."""

    hits: Annotated[list[Any], Field(max_length=MAX_HITS)]
