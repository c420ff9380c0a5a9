"""Facts about other sites for the search page."""

from typing import Any

from cbir.search import Searcher
from cbir.settings import Settings


def federation_facts(_searcher: Searcher, settings: Settings) -> dict[str, Any]:
    """Return the names of the other sites."""
    return {"sites": list(settings.sites)}
