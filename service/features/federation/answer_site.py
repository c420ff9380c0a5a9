"""Answer the search of another service: distances, and what the settings let leave."""

import base64
import hmac
from collections.abc import Callable, Sequence

from cbir.errors import InvalidInput, NotFound
from cbir.rerank.simple_rerankers import NoReranking
from cbir.search import Hit, Searcher
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.records.filter_conditions import parse_filter
from service.features.federation.exchange.reply_checks import MAX_LABEL_CHARACTERS, MAX_THUMBNAIL_BYTES
from service.features.federation.exchange.site_agreement import describe_site, difference
from service.features.federation.exchange.site_messages import FederatedHit, FederatedReply, SiteProfile

Thumbnail = Callable[[str], bytes | None]  # JPEG of an image id


def site_profile(collection: Collection, settings: Settings) -> SiteProfile:
    """Return what other sites must agree with, and what answers contain; `collection` as the caller sees it."""
    shared: dict[str, object] = {
        "labels": list(settings.federation_labels),
        "thumbnails": settings.federation_thumbnails,
        "ids": settings.federation_ids,
        "results": settings.federation_results,
    }
    return describe_site(collection.profile, collection.normalisation(), collection.count(), shared)


def check_agreement(own_profile: SiteProfile, profile_hash: str, transform: str) -> None:
    """Raise InvalidInput if a vector was computed with another profile, or is to be normalised otherwise.

    Parameters
    ----------
    own_profile : SiteProfile
        Profile of this site.
    profile_hash, transform : str
        Those that the vector comes with.
    """
    their_profile = own_profile.model_copy(
        update={"profile_hash": profile_hash, "transform": transform, "profile": "another"}
    )
    if reason := difference(own_profile, their_profile):
        raise InvalidInput(f"the sites differ: {reason}")


def require_shared_labels(where: Sequence[str], settings: Settings) -> None:
    """Raise InvalidInput for a condition on a label that answers do not contain: hits would tell its value."""
    for text in where:
        if parse_filter(text).key not in settings.federation_labels:
            raise InvalidInput("where: this site does not share that label; see `labels` of its profile")


def require_enough(results: int, settings: Settings) -> None:
    """Raise NotFound if a search found fewer images than `federation_minimum`: they could be recognised."""
    if results < settings.federation_minimum:
        raise NotFound(
            f"this site answers searches among at least {settings.federation_minimum} images, and there are fewer"
        )


def require_named_reranker(name: str) -> None:
    """Raise InvalidInput for `auto`, which is another method at each site."""
    if name == "auto":
        raise InvalidInput("rerank: auto is another method at each site; name a method, or none")


def name_for(caller: str, collection: Collection, image_id: str) -> str:
    """Return the name that an image has for one caller: always the same, and of no use to find the image's pixels.

    Parameters
    ----------
    caller : str
        Name of the caller.
    collection : Collection
        Its secret goes into the name.
    image_id : str
        The image.
    """
    message = f"{caller}\0{image_id}".encode()
    return hmac.digest(collection.secret, b"federation\0" + message, "sha256").hex()[:32]


class ReplyWriter:
    """Writes replies to one caller.

    Parameters
    ----------
    searcher : Searcher
        Search of the images that the caller may see.
    caller : str
        Its name.
    thumbnail : callable
        Returns the JPEG of an image.
    """

    def __init__(self, searcher: Searcher, caller: str, thumbnail: Thumbnail) -> None:
        self._collection, self._settings = searcher.collection, searcher.settings
        self._caller, self._thumbnail = caller, thumbnail

    def reply(self, hits: Sequence[Hit], own_profile: SiteProfile, method: str) -> FederatedReply:
        """Return the reply with the images that were found.

        Parameters
        ----------
        hits : sequence of Hit
            The images, best first.
        own_profile : SiteProfile
            Profile of this site.
        method : str
            Re-ranker that was used.
        """
        reranked = method != NoReranking.name
        return FederatedReply(
            profile_hash=own_profile.profile_hash,
            transform=own_profile.transform,
            images=own_profile.images,
            method=method,
            hits=[self._hit(hit, reranked) for hit in hits],
        )

    def _hit(self, hit: Hit, reranked: bool) -> FederatedHit:
        settings = self._settings
        name = (
            hit.image_id
            if settings.federation_ids
            else name_for(self._caller, self._collection, hit.image_id)
        )
        keys = [key for key in settings.federation_labels if key in hit.labels]
        picture = self._thumbnail(hit.image_id) if settings.federation_thumbnails else None
        fits = picture is not None and len(picture) <= MAX_THUMBNAIL_BYTES
        return FederatedHit(
            image_id=name,
            distance=hit.distance,
            score=hit.score if reranked else None,
            labels={key: _one_line(hit.labels[key]) for key in keys},
            thumbnail=base64.b64encode(picture).decode("ascii") if fits and picture else None,
        )


def _one_line(value: str) -> str:
    """Return the value of a label as other sites accept it."""
    return "".join(letter if letter.isprintable() else " " for letter in value[:MAX_LABEL_CHARACTERS])


def contents_of(reply: FederatedReply) -> list[str]:
    """Return what a reply lets leave the site, for the audit log."""
    keys = sorted({key for hit in reply.hits for key in hit.labels})
    pictures = sum(hit.thumbnail is not None for hit in reply.hits)
    return [
        f"{len(reply.hits)} distances",
        "number of images",
        *(f"label {key}" for key in keys),
        *([f"{pictures} thumbnails"] if pictures else []),
    ]
