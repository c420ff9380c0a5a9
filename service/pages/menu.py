"""The menu of the pages: those of the core, and those that features add."""

from typing import NamedTuple

from flask import Flask

from cbir.system.access_rights import Scope
from cbir.system.features import features
from service.access.caller import current_rights
from service.languages import mark

MENU = "cbir-menu"  # key in app.extensions


class MenuPage(NamedTuple):
    """A page of the menu.

    endpoint: of its view. title: a marked message, or a text that is not translated. position: of it among others.
    of_collection: the page gets the collection that is shown. scope: shows the page only to callers with that scope
    who may see all collections and images. of_administration: it is in the menu of /admin alone.
    """

    endpoint: str
    title: str
    position: int = 100
    of_collection: bool = True
    scope: Scope | None = None
    of_administration: bool = False


CORE = (
    MenuPage("pages.index", mark("Search"), 10),
    MenuPage("gallery.show_gallery", mark("Gallery"), 20),
)


def install_menu(app: Flask) -> None:
    """Let the templates of `app` show the menu; raises FeatureUnusable."""
    pages = [*CORE, *(feature.load(each) for feature in features() for each in feature.menu)]
    app.extensions[MENU] = sorted(pages, key=lambda page: page.position)
    app.context_processor(
        lambda: {"menu": _visible_pages(app, False), "admin_menu": _visible_pages(app, True)}
    )


def _visible_pages(app: Flask, of_administration: bool) -> list[MenuPage]:
    pages = [page for page in app.extensions[MENU] if page.of_administration is of_administration]
    return [page for page in pages if _shows(page)]


def _shows(page: MenuPage) -> bool:
    rights = current_rights()
    return page.scope is None or (rights is not None and rights.allows(page.scope) and not rights.limited)
