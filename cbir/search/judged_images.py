"""Images that a request judges."""

import numpy as np

from cbir.errors import InvalidInput, NotFound
from cbir.gallery.vector_blocks import Doubles
from cbir.rerank.seeded_diffusion import RelevanceFeedback
from cbir.search.search_request import Request
from cbir.store import Collection
from cbir.store.index.port import Numbers


def read_feedback(collection: Collection, request: Request) -> tuple[Numbers, Doubles]:
    """Return the numbers of the judged images, in the order of the request, and their relevance; 0 is left out.

    Raises NotFound for an unknown image, and InvalidInput for one that is judged more than once.
    """
    ids = [judgement.image_id for judgement in request.feedback]
    repeated = next((image_id for index, image_id in enumerate(ids) if image_id in ids[:index]), None)
    if repeated is not None:
        raise InvalidInput(f"feedback: image {repeated} is judged more than once")
    numbers = collection.numbers_of(ids)
    relevance = np.array([judgement.relevance for judgement in request.feedback], np.float64)
    return numbers[relevance != 0.0], relevance[relevance != 0.0]


def feedback_in(ids: Numbers, numbers: Numbers, relevance: Doubles) -> RelevanceFeedback:
    """Return judgements by the rows of a view; raises NotFound for an image that was deleted meanwhile.

    Parameters
    ----------
    ids : (n,) int64
        Image numbers of the view's rows, ascending.
    numbers : (j,) int64
        Numbers of the judged images.
    relevance : (j,) float64
        Their relevance.
    """
    rows = np.searchsorted(ids, numbers)
    if not np.isin(numbers, ids).all():
        raise NotFound("feedback: a judged image has been deleted meanwhile; search again without it")
    return RelevanceFeedback(rows, relevance)
