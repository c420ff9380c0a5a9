"""Checks of what another site answers: it may be slow, broken or dishonest, and changes no hit of another."""

import base64
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from cbir.errors import CbirError
from service.features.federation.site_messages import (
    MAX_NAME,
    FederatedHit,
    FederatedReply,
    SiteProfile,
    UncheckedReply,
)

if TYPE_CHECKING:
    from cbir.store.records.filter_conditions import Condition

MAX_LABEL_CHARACTERS = 300
MAX_THUMBNAIL_BYTES = 96 * 2**10
MAX_THUMBNAIL_SIDE = 512
REPLY_BYTES = 64 * 2**10  # of a reply without hits, and of a site's profile
HIT_BYTES = 2**10
LABEL_BYTES = 4 * (MAX_NAME + MAX_LABEL_CHARACTERS)
MOST_BYTES = 64 * 2**20  # of any reply
THUMBNAIL_TEXT = MAX_THUMBNAIL_BYTES * 4 // 3 + 4

Message = TypeVar("Message", bound=BaseModel)


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
