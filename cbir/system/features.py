"""The seam between the core and features: what a feature brings, as an entry point of the group `cbir.features`.

The core knows no feature by name. A feature that is installed and cannot be used is an error, never left out: it
may have stored data of patients.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import Any

from cbir.errors import CbirError, describe_unexpected

GROUP = "cbir.features"  # NAME = "package.module:FEATURE"
EARLIER_GROUP = "cbir.erasers"  # of versions without features: what it names would be left out


class FeatureUnusable(CbirError):
    """An installed feature cannot be imported, or stores data and does not say how a patient is erased from them."""


@dataclass(frozen=True, kw_only=True)
class Feature:
    """Declaration of a feature. Each text is "package.module:object", loaded when it is used; "" is nothing.

    name: of its entry point.
    routes: Flask blueprints; views with `@operation` are in the OpenAPI document.
    access: dict of an `AccessRule` by "METHOD /path/*"; an address without one is refused where tokens are needed.
    menu: `MenuPage`s.
    package: module beside the folders `static`, served below /static, `templates`, and `languages` with catalogues.
    pages: style sheets and scripts of the feature's own pages, by the name of the page, its own script last.
    page_modules: scripts and style sheets below `static` that a page of the core loads, by the name of the page; see
    `service.pages.page_files`.
    page_facts: function of a `Searcher` and the settings; returns what the feature's scripts on pages of the core
    need, as it is written to JSON.
    install: function that prepares the Flask app, before the routes are added.
    check_settings: function that raises InvalidInput if the service must not start with these settings.
    jobs: a `JobKind` by its name.
    search_hook: a `SearchHook`, which changes searches of requests and their answers.
    checks: what `cbir admin state verify` also reads, by name: a function of the settings that returns the problems.
    tables: modules that add tables to `service.state.schema.tables`.
    eraser: function of the settings, the keys that a patient may have and the ids of its images, which removes them
    from what the feature has stored; raises if it cannot.
    erases_deleted: the eraser is called, without keys of patients, for images that are deleted too.
    mentions: function of the settings that returns the ids of images and keys of patients that the feature has
    stored, by what has them; `cbir collection verify --erased` looks for erased ones, and fails without it.
    """

    name: str
    routes: tuple[str, ...] = ()
    access: str = ""
    menu: tuple[str, ...] = ()
    package: str = ""
    pages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    page_modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    page_facts: str = ""
    install: str = ""
    check_settings: str = ""
    jobs: Mapping[str, str] = field(default_factory=dict)
    search_hook: str = ""
    checks: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    eraser: str = ""
    erases_deleted: bool = False
    mentions: str = ""

    def __post_init__(self) -> None:
        if (self.tables or self.checks) and not self.eraser:
            raise FeatureUnusable(f"feature {self.name}: it stores data, and names no eraser of a patient's")

    def load(self, reference: str) -> Any:
        """Return the object that "package.module:object" names; raises FeatureUnusable."""
        try:
            return resolve_name(reference)
        except Exception as error:
            raise FeatureUnusable(_advice(self.name, reference, error)) from error


@cache
def features() -> tuple[Feature, ...]:
    """Return the installed features by name; raises FeatureUnusable if one of them cannot be used."""
    for entry in entry_points(group=EARLIER_GROUP):
        raise FeatureUnusable(
            f"{entry.value} is an eraser for an earlier version of cbir, and nothing would call it: "
            "install its package again"
        )
    installed: dict[str, Feature] = {}
    for entry in entry_points(group=GROUP):
        try:
            feature = entry.load()
        except Exception as error:
            raise FeatureUnusable(_advice(entry.name, entry.value, error)) from error
        if not isinstance(feature, Feature) or feature.name != entry.name:
            raise FeatureUnusable(f"feature {entry.name}: {entry.value} is no Feature of this name")
        if installed.setdefault(entry.name, feature) != feature:
            raise FeatureUnusable(f"two packages bring a feature {entry.name}: uninstall one")
    return tuple(installed[name] for name in sorted(installed))


def _advice(name: str, reference: str, error: Exception) -> str:
    reason = str(error) if isinstance(error, CbirError | ImportError) else describe_unexpected(error)
    return f"feature {name}: {reference} cannot be loaded ({reason}): install its package again"
