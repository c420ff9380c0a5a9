"""The files that each page of the core loads.

The build of wheels imports it, so it imports nothing but the standard library.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

PAGES: Mapping[
    str, tuple[str, ...]
] = {  # files of the core, below static; a page's own module is the last one
    "search": (
        "page.css",
        "card.css",
        "viewer/viewer.css",
        "viewer/reading.css",
        "search/search.css",
        "search/search.js",
    ),
    "browse": ("page.css", "card.css", "viewer/viewer.css", "browse/browse.css", "browse/browse.js"),
    "admin": ("page.css", "admin/admin.css", "admin/admin.js"),
}


class WithModules(Protocol):
    """A `Feature`, of which this needs one field."""

    @property
    def page_modules(self) -> Mapping[str, tuple[str, ...]]:
        """Files by page."""


def files_of_page(page: str, installed: Iterable[WithModules]) -> list[str]:
    """Return the files of a page in the order of their tags: style sheets first, features' scripts before its own."""
    added = [name for feature in installed for name in feature.page_modules.get(page, ())]
    names = [*PAGES[page][:-1], *added, PAGES[page][-1]]
    return sorted(names, key=lambda name: name.endswith(".js"))
