"""Search by text, in collections whose encoder has a text tower: by the cosine between text and image."""

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders import Encoder
from cbir.descriptors.network_descriptors import encoder_of
from cbir.errors import CbirError, InvalidInput
from cbir.gallery.gallery import top_k
from cbir.gallery.vector_blocks import Floats, Rows, VectorBlocks
from cbir.rerank.simple_rerankers import NoReranking
from cbir.search.search_models import MAX_TEXT
from cbir.search.search_options import Request
from cbir.store.base.profile import Profile
from cbir.store.views.view_cache import unit_vectors


def can_search_by_text(profile: Profile) -> bool:
    """Return whether a collection with this profile can be searched by text here."""
    try:
        encoder = encoder_of(profile.descriptor)
    except CbirError:  # stored elsewhere
        return False
    return encoder is not None and encoder.has_text


def text_encoder(profile: Profile) -> Encoder:
    """Return the encoder that describes texts for a collection; raises InvalidInput without one."""
    encoder = encoder_of(profile.descriptor)
    if encoder is None or encoder.card.text is None:
        raise InvalidInput(
            f"text: the profile {profile.name} has no text tower; search with an image, or index with an encoder "
            "of an image-text model, such as hf:microsoft/BiomedCLIP-PubMedBERT_256-vit_base_patch16_224"
        )
    return encoder


def check_text_request(text: str, request: Request) -> None:
    """Raise InvalidInput for an empty or very long text, and for parameters that need an image to search with."""
    if not text.strip():
        raise InvalidInput("text: is empty")
    if len(text) > MAX_TEXT:
        raise InvalidInput(f"text: has {len(text)} characters, and at most {MAX_TEXT} can be searched with")
    if request.examples or request.feedback:
        raise InvalidInput(
            "text: examples and feedback go with images; search with those, or with a text alone"
        )
    if request.same_patient:
        raise InvalidInput("same_patient: needs an image to search with, whose patient is known")
    if request.rerank not in (None, NoReranking.name):
        raise InvalidInput(
            f"rerank: a search by text is not re-ranked; leave {request.rerank} out, or send {NoReranking.name}"
        )
    NoReranking.from_values(NoReranking.name, request.parameters)  # it has none


def rank_by_text(
    vector: Floats, vectors: VectorBlocks, rows: Rows | None, k: int
) -> tuple[NDArray[np.int64], Floats]:
    """Rank images by the cosine of the angle between their vectors and that of a text.

    Parameters
    ----------
    vector : (e,) float32
        Vector of the text, of any length.
    vectors : VectorBlocks
        (n, e) float32 of the images, of length 1.
    rows : (m,) int64 or None
        Rows to rank, ascending; None for all.
    k : int
        Number of images; fewer where there are fewer.

    Returns
    -------
    best : (k,) int64
        Rows, best first.
    cosines : (k,) float32
        From -1 to 1, falling.
    """
    query = unit_vectors(vector)
    cosines = np.empty(len(vectors) if rows is None else len(rows), np.float32)
    for where, block in vectors.chunks(rows):
        cosines[where] = block @ query
    best = top_k(cosines, k)
    return best if rows is None else rows[best], cosines[best]
