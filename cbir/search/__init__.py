"""The one query path, for command line, HTTP and evaluation: image or image id in, ranked answer out."""

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
    Request,
    RerankFacts,
)
from cbir.search.searcher import RankedImages, Searcher
from cbir.search.stopwatch import Stopwatch
from cbir.search.text_search import can_search_by_text

__all__ = [
    "MAX_EXAMPLES", "MAX_JUDGEMENTS", "MAX_TEXT", "Answer", "DicomPlace", "Examples", "Hit", "ImageId", "Judgement",
    "Judgements", "Links", "QueryFacts", "QueryImage", "RankedImages", "Request", "RerankFacts", "Searcher",
    "Stopwatch", "can_search_by_text", "describe_query", "image_links", "record_links", "select_frame",
]  # fmt: skip
