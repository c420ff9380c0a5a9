"""Facts about graders for the search page."""

from typing import Any

from cbir.search import Searcher
from cbir.settings import Settings


def grade_facts(searcher: Searcher, _settings: Settings) -> dict[str, Any]:
    """Return the labels that graders of a collection were trained on."""
    return {"columns": searcher.collection.graded_labels()}
