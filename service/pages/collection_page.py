"""Views of pages that show the collection which the address names."""

from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Any, NamedTuple

from flask import render_template, request

from cbir.errors import NotFound
from cbir.search import Searcher
from service.collections.app_state import current_state
from service.collections.mounted_collection import CollectionHandle
from service.http.problems import NotReady
from service.pages.error_pages import unavailable_page


class ShownCollection(NamedTuple):
    """The collection of a page. names: of all collections that the caller may use."""

    handle: CollectionHandle
    searcher: Searcher
    names: list[str]

    @property
    def in_links(self) -> str | None:
        """The name of the collection as links have it: None for the only one."""
        return self.handle.name if len(self.names) > 1 else None

    def render(self, template: str, **values: Any) -> str:
        """Render a template with the choice of a collection in its bar."""
        return render_template(
            template,
            collection=self.handle.name,
            collections=self.names,
            collection_arg=self.in_links,
            **values,
        )


def collection_page(show: Callable[[ShownCollection], str]) -> Callable[[], tuple[str, HTTPStatus]]:
    """Make a view of a function that shows a collection; it shows the reason where the collection is unavailable."""

    @wraps(show)
    def view() -> tuple[str, HTTPStatus]:
        state = current_state()
        try:
            handle = state.handle(request.args.get("collection"))
            current = ShownCollection(handle, handle.searcher(), state.visible_names())
        except (NotFound, NotReady) as error:
            return unavailable_page(error)
        return show(current), HTTPStatus.OK

    return view
