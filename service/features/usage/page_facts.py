"""Facts about the usage log for the search page."""

from typing import Any

from cbir.search import Searcher
from cbir.settings import Settings


def usage_facts(_searcher: Searcher, settings: Settings) -> dict[str, Any]:
    """Return whether searches are logged, and whether vectors of uploads are kept."""
    return {"log": settings.usage_log, "vectors": settings.usage_vectors}
