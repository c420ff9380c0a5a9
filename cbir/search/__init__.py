"""The one query path, for command line, HTTP and evaluation: image or image id in, ranked answer out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cbir.search.answer import Answer, Grouping, QueryFacts, RerankFacts
from cbir.search.search_models import (
    MAX_EXAMPLES,
    MAX_GROUP_SIZE,
    MAX_JUDGEMENTS,
    MAX_TEXT,
    DicomPlace,
    Examples,
    Hit,
    HitGroup,
    ImageId,
    Judgement,
    Judgements,
    Links,
    image_links,
    record_links,
)
from cbir.system.api_packages import make_callable

if TYPE_CHECKING:
    from cbir.descriptors.descriptor import QueryImage, describe_query, select_frame
    from cbir.rerank.ranked import Ranked
    from cbir.search.search_options import Request
    from cbir.search.searcher import Searcher
    from cbir.search.text_search import can_search_by_text
    from cbir.system.threads import Stopwatch

MODULES = {
    "QueryImage": "cbir.descriptors.descriptor",
    "Ranked": "cbir.rerank.ranked",
    "Request": "cbir.search.search_options",
    "Searcher": "cbir.search.searcher",
    "Stopwatch": "cbir.system.threads",
    "can_search_by_text": "cbir.search.text_search",
    "describe_query": "cbir.descriptors.descriptor",
    "select_frame": "cbir.descriptors.descriptor",
}

__all__ = [
    "MAX_EXAMPLES", "MAX_GROUP_SIZE", "MAX_JUDGEMENTS", "MAX_TEXT", "Answer", "DicomPlace", "Examples", "Grouping",
    "Hit", "HitGroup", "ImageId", "Judgement", "Judgements", "Links", "QueryFacts", "QueryImage", "Ranked",
    "Request", "RerankFacts", "Searcher", "Stopwatch", "can_search_by_text", "describe_query", "image_links",
    "record_links", "select_frame",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import what is used: the HTTP client needs the messages alone, without FAISS and OpenCV."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(MODULES[name]), name)


make_callable(__name__, "cbir.api.collection_search:search")
