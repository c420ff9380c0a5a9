"""Parts of pages: the menu, label filters, and the files and templates that features bring."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from flask import Blueprint, Flask

from cbir.search import Searcher
from cbir.settings import Settings
from cbir.store import Collection
from cbir.system.access_rights import Scope
from cbir.system.features import Feature, FeatureUnusable, features
from service.access.caller import current_rights
from service.access.scopes import OpenTo, rule_of_address
from service.languages import mark
from service.pages.page_list import PAGES

MENU = "cbir-menu"  # key in app.extensions
STATIC, TEMPLATES = "static", "templates"
FEATURE_FILES = "cbir-feature-files"  # key in app.extensions: folder by address below /static
MAX_KEYS = 16
MAX_VALUES = 24
SEPARATOR = ";"  # between conditions on the page, so values that contain it are not offered
Values = list[tuple[str, int]]


class MenuPage(NamedTuple):
    """A page of the menu.

    endpoint: of its view. title: a marked message, or a text that is not translated. position: of it among others.
    of_collection: the page gets the collection that is shown. scope: shows the page only to callers with that scope
    who may see all collections and images. of_administration: it is in the menu of /admin alone. in_bar: it is in the
    bar of each page, not in the menu behind it.
    """

    endpoint: str
    title: str
    position: int = 100
    of_collection: bool = True
    scope: Scope | None = None
    of_administration: bool = False
    in_bar: bool = False


CORE = (
    MenuPage("pages.index", mark("Search"), 10, in_bar=True),
    MenuPage("pages.show_browse", mark("Browse"), 20, in_bar=True),
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
    return [page for page in pages if _shows(app, page)]


def _shows(app: Flask, page: MenuPage) -> bool:
    rights, need = current_rights(), _need_of(app, page)
    if need is None:
        return False
    if rights is not None and isinstance(need, Scope) and not rights.allows(need):
        return False
    return page.scope is None or (rights is not None and rights.allows(page.scope) and not rights.limited)


def _need_of(app: Flask, page: MenuPage) -> Scope | OpenTo | None:
    """Return what the address of a page needs, None if `app` does not have the page."""
    rules = (rule_of_address(app, "GET", each.rule) for each in app.url_map.iter_rules(page.endpoint))
    return next((rule.need for rule in rules if rule), None)


def install_files(app: Flask) -> None:
    """Let `app` serve the files of features; raises FeatureUnusable if two files or pages have one name."""
    package = Path(app.root_path)
    static = dict.fromkeys(_files_below(package / STATIC), package / STATIC)
    templates = dict.fromkeys(_files_below(package / TEMPLATES), package / TEMPLATES)
    for feature in features():
        if feature.package:
            folder = Path(feature.load(feature.package).__file__).parent
            _add_files(feature, folder / STATIC, static)
            _add_files(feature, folder / TEMPLATES, templates)
            files = Blueprint(f"{feature.name}-files", feature.package, template_folder=TEMPLATES)
            app.register_blueprint(files)
        _check_modules(feature, static)
    app.extensions[FEATURE_FILES] = {name: at for name, at in static.items() if at != package / STATIC}


def _check_modules(feature: Feature, static: Mapping[str, Path]) -> None:
    taken = {*PAGES, *(page for other in features() if other.name != feature.name for page in other.pages)}
    if both := sorted(taken & {*feature.pages}):
        raise FeatureUnusable(f"feature {feature.name}: there is another page {both[0]}")
    for page, names in [*feature.page_modules.items(), *feature.pages.items()]:
        for name in names:
            if page not in (*PAGES, *feature.pages) or name not in static:
                raise FeatureUnusable(
                    f"feature {feature.name}: there is no page {page}, or no file {STATIC}/{name}"
                )


def facts_of_features(page: str, searcher: Searcher, settings: Settings) -> dict[str, Any]:
    """Return what the features with scripts on a page want these to know of a collection and the service, by name."""
    return {
        feature.name: feature.load(feature.page_facts)(searcher, settings)
        for feature in features()
        if feature.page_facts and page in feature.page_modules
    }


def _files_below(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.relative_to(folder).as_posix()


def _add_files(feature: Feature, folder: Path, folders: dict[str, Path]) -> None:
    for name in _files_below(folder):
        if folders.setdefault(name, folder) != folder:
            raise FeatureUnusable(f"feature {feature.name}: there is another file {folder.name}/{name}")


# the label counts of each collection at one generation
_cache: WeakKeyDictionary[Collection, tuple[int, dict[str, Values]]] = WeakKeyDictionary()
_lock = Lock()


def label_filters_of(collection: Collection) -> dict[str, Values]:
    """Return the keys that distinguish images, each with its most frequent values and their image counts.

    Counts are cached until `collection` changes, since counting in a large collection takes a while.
    """
    generation = collection.generation()
    with _lock:
        cached = _cache.get(collection)
        if cached is None or cached[0] != generation:
            cached = _cache[collection] = generation, _count(collection)
        return cached[1]


def _count(collection: Collection) -> dict[str, Values]:
    counts: dict[str, Values] = {}
    for key, images in list(collection.label_keys().items())[:MAX_KEYS]:
        values = collection.label_values(key, MAX_VALUES)
        usable = [(value, count) for value, count in values if SEPARATOR not in key + value]
        is_identifier = images > 1 and values[0][1] == 1  # a different value for each image
        if usable and not is_identifier:
            counts[key] = usable
    return counts
