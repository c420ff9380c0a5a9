"""Facts about explanations for the search page."""

from typing import Any

from cbir.search import Searcher
from cbir.search.explanation import explanation_kind
from cbir.settings import Settings


def explain_facts(searcher: Searcher, _settings: Settings) -> dict[str, Any]:
    """Return the kind of explanations that a collection has; empty for none."""
    return {"kind": explanation_kind(searcher.collection.profile)}
