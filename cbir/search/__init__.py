"""The one query path, for command line, HTTP and evaluation: image or image id in, ranked answer out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cbir.query_image import QueryImage, describe_query, select_frame
    from cbir.search.image_links import Links, image_links, record_links
    from cbir.search.search_models import (
        MAX_EXAMPLES,
        MAX_JUDGEMENTS,
        MAX_TEXT,
        Answer,
        DicomPlace,
        Examples,
        Hit,
        ImageId,
        Judgement,
        Judgements,
        QueryFacts,
        RerankFacts,
    )
    from cbir.search.search_request import Request
    from cbir.search.searcher import RankedImages, Searcher
    from cbir.search.stopwatch import Stopwatch
    from cbir.search.text_search import can_search_by_text

MODULES = {
    "cbir.query_image": ("QueryImage", "describe_query", "select_frame"),
    "cbir.search.image_links": ("Links", "image_links", "record_links"),
    "cbir.search.search_models": (
        "MAX_EXAMPLES", "MAX_JUDGEMENTS", "MAX_TEXT", "Answer", "DicomPlace", "Examples", "Hit", "ImageId", "Judgement",
        "Judgements", "QueryFacts", "RerankFacts",
    ),
    "cbir.search.search_request": ("Request",),
    "cbir.search.searcher": ("RankedImages", "Searcher"),
    "cbir.search.stopwatch": ("Stopwatch",),
    "cbir.search.text_search": ("can_search_by_text",),
}  # fmt: skip

__all__ = [
    "MAX_EXAMPLES", "MAX_JUDGEMENTS", "MAX_TEXT", "Answer", "DicomPlace", "Examples", "Hit", "ImageId", "Judgement",
    "Judgements", "Links", "QueryFacts", "QueryImage", "RankedImages", "Request", "RerankFacts", "Searcher",
    "Stopwatch", "can_search_by_text", "describe_query", "image_links", "record_links", "select_frame",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import what is used: the HTTP client needs the messages alone, without FAISS and OpenCV."""
    module = next((module for module, names in MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)
