"""Messages between services, and checks of what another site answers: it may be slow, broken or dishonest."""

import base64
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from cbir.errors import CbirError
from cbir.search import example_values as example

if TYPE_CHECKING:
    from cbir.store.records.filter_conditions import Condition

MAX_DIMENSIONS = 65_536
MAX_HITS = 1000
MAX_IMAGES = 10**12
MAX_LABELS = 64  # keys of labels that a site shares
MAX_NAME = 255  # characters of a profile, a re-ranker, a label key
EXAMPLE_HASH = "2f8c1d6e9a0b4c73"
EXAMPLE_TRANSFORM = "9c1185a5c5e9fc54612808977ee8f548"
MAX_LABEL_CHARACTERS = 300
MAX_THUMBNAIL_BYTES = 96 * 2**10
MAX_THUMBNAIL_SIDE = 512
REPLY_BYTES = 64 * 2**10  # of a reply without hits, and of a site's profile
HIT_BYTES = 2**10
LABEL_BYTES = 4 * (MAX_NAME + MAX_LABEL_CHARACTERS)
MOST_BYTES = 64 * 2**20  # of any reply
THUMBNAIL_TEXT = MAX_THUMBNAIL_BYTES * 4 // 3 + 4

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
Fingerprint = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Message = TypeVar("Message", bound=BaseModel)


def one_line(text: str, most: int) -> str:
    """Return the first `most` characters, with spaces for those that terminals would obey."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:most])


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
        default=None, description="Score of the re-ranker; null without re-ranking."
    )
    labels: dict[str, str] = Field(
        default={}, description="Labels that the site shares.", examples=[{"modality": "CR"}]
    )
    thumbnail: str | None = Field(
        default=None, description="Thumbnail, a JPEG in base64; null where the site sends none."
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


class UntrustedReply(CbirError):
    """An answer of another site that cannot be used."""


@dataclass(frozen=True)
class AskedFor:
    """A question as its answer is checked: profile of the site, number of hits, re-ranker, conditions on labels."""

    profile: SiteProfile
    k: int
    rerank: str
    conditions: "tuple[Condition, ...]" = ()

    @property
    def most_bytes(self) -> int:
        """Size of the largest answer that is read."""
        each = HIT_BYTES + LABEL_BYTES * len(self.profile.labels)
        each += THUMBNAIL_TEXT if self.profile.thumbnails else 0
        return min(REPLY_BYTES + self.k * each, MOST_BYTES)


@dataclass(frozen=True)
class CheckedReply:
    """The hits of a reply that do not contradict it, and sentences about those that were left out."""

    hits: tuple[FederatedHit, ...]
    images: int
    notes: tuple[str, ...] = ()


def read_message(content: bytes, model: type[Message]) -> Message:
    """Parse what a site sent as `model`; raises UntrustedReply, which quotes nothing of it."""
    try:
        return model.model_validate_json(content)
    except (ValidationError, ValueError, RecursionError):
        raise UntrustedReply("it answers something else than a cbir service does") from None


def check_reply(content: bytes, question: AskedFor) -> CheckedReply:
    """Parse and check the reply of a site.

    Hits that contradict themselves or others are left out: other types, numbers that are not finite, negative
    distances, an image twice, another order than that of the distances, or of the scores of a re-ranker. So are hits
    whose labels do not fulfil the conditions.

    Parameters
    ----------
    content : bytes
        What the site sent.
    question : AskedFor
        The question.

    Raises
    ------
    UntrustedReply
        If the reply as a whole is no answer to that.
    """
    reply = read_message(content, UncheckedReply)
    if (reply.profile_hash, reply.transform) != (question.profile.profile_hash, question.profile.transform):
        raise UntrustedReply("its profile has changed since it was compared; search again")
    if reply.method != question.rerank:
        raise UntrustedReply("it has not re-ranked as it was asked to")
    if len(reply.hits) > question.k:
        raise UntrustedReply(f"it answers {len(reply.hits)} results to a request for {question.k}")
    if len(reply.hits) > reply.images:
        raise UntrustedReply("it answers more results than it says it has images")
    consistent = _consistent(reply, question.rerank != "none")
    sound = [_without_unsound(hit, question.profile) for hit in consistent]
    hits = [hit for hit in sound if all(each.holds_for(hit.labels) for each in question.conditions)]
    stripped = sum(before != after for before, after in zip(consistent, sound, strict=True))
    count = len(reply.hits)
    notes = {
        f"{count - len(sound)} of {count} results contradict themselves and are left out": count - len(sound),
        f"labels or thumbnails of {stripped} results are not as agreed and are left out": stripped,
        f"{len(sound) - len(hits)} results do not fulfil the conditions and are left out": len(sound)
        - len(hits),
    }
    return CheckedReply(tuple(hits), reply.images, tuple(note for note, number in notes.items() if number))


def _consistent(reply: FederatedReply, reranked: bool) -> list[FederatedHit]:
    """Return the hits that are valid, named once, and in the order of their scores or distances."""
    hits, names, least = list[FederatedHit](), set[str](), float("-inf")
    for item in reply.hits:
        hit = _parse_hit(item)
        if hit is None or hit.image_id in names or (reranked and hit.score is None):
            continue
        cost = -hit.score if reranked and hit.score is not None else hit.distance
        if cost < least:
            continue
        least = cost
        names.add(hit.image_id)
        hits.append(hit)
    return hits


def _parse_hit(item: Any) -> FederatedHit | None:
    try:
        return FederatedHit.model_validate(item, strict=True)
    except (ValidationError, RecursionError):
        return None


def _without_unsound(hit: FederatedHit, profile: SiteProfile) -> FederatedHit:
    """Return a hit without labels and a thumbnail that the site has not announced, or that are not sound."""
    labels = hit.labels if set(hit.labels) <= set(profile.labels) and _are_short(hit.labels) else {}
    thumbnail = hit.thumbnail if profile.thumbnails and _is_small_jpeg(hit.thumbnail) else None
    return hit.model_copy(update={"labels": labels, "thumbnail": thumbnail})


def _are_short(labels: dict[str, str]) -> bool:
    texts = [*labels, *labels.values()]
    return all(len(text) <= MAX_LABEL_CHARACTERS and text.isprintable() for text in texts)


def _is_small_jpeg(text: str | None) -> bool:
    """Return whether `text` is a JPEG that a page can show; reads its header alone."""
    from PIL import Image  # which the client of the API does without

    if text is None or len(text) > THUMBNAIL_TEXT:
        return False
    try:
        data = base64.b64decode(text, validate=True)
        with Image.open(BytesIO(data), formats=["JPEG"]) as picture:
            return max(picture.size) <= MAX_THUMBNAIL_SIDE
    except Exception:  # Pillow raises many kinds for what only looks like a JPEG
        return False
