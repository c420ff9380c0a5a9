"""The files that each page of the core loads; features name those of their own pages.

The build of wheels imports it, so it imports nothing but the standard library.
"""

from collections.abc import Iterable, Mapping, Sequence
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
    """A `Feature`, of which this needs two fields."""

    @property
    def pages(self) -> Mapping[str, tuple[str, ...]]:
        """Files of its own pages."""

    @property
    def page_modules(self) -> Mapping[str, tuple[str, ...]]:
        """Files by page of the core."""


def files_by_page(installed: Iterable[WithModules]) -> dict[str, tuple[str, ...]]:
    """Return the files of all pages, of the core and of features."""
    return {
        name: files for pages in (PAGES, *(each.pages for each in installed)) for name, files in pages.items()
    }


def files_of_page(page: str, installed: Sequence[WithModules]) -> list[str]:
    """Return the files of a page in the order of their tags: style sheets first, features' scripts before its own."""
    files = files_by_page(installed)[page]
    added = [name for feature in installed for name in feature.page_modules.get(page, ())]
    return sorted([*files[:-1], *added, files[-1]], key=lambda name: name.endswith(".js"))
