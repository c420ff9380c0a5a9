"""Scripts and style sheets of a page: its modules as they are, or the bundle that a wheel has in place of them.

`hatch_build.py` writes the bundles and their manifest when a wheel is made; a checkout has none.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from flask import Flask, url_for
from markupsafe import Markup

from cbir.system.features import Feature, features

BUNDLES = Path(__file__).parents[1] / "static" / "bundles"
MANIFEST = "manifest.json"  # by page: {"files": what is in the bundle, "bundle": its files}
PAGES: Mapping[str, tuple[str, ...]] = {  # files of the core, below static; a page's own module is the last one
    "search": ("page.css", "viewer/viewer.css", "search/search.css", "search/search.js"),
}


def install(app: Flask) -> None:
    """Let templates of `app` load the files of a page: `{{ page_files("search") }}`."""
    app.context_processor(lambda: {"page_files": page_tags})


def files_of(page: str, installed: tuple[Feature, ...]) -> list[str]:
    """Return the files of a page in the order of their tags: style sheets first, features' scripts before its own."""
    added = [name for feature in installed for name in feature.page_modules.get(page, ())]
    names = [*PAGES[page][:-1], *added, PAGES[page][-1]]
    return sorted(names, key=lambda name: name.endswith(".js"))


@cache
def _manifest() -> dict[str, dict[str, list[str]]]:
    try:
        text = (BUNDLES / MANIFEST).read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    manifest: dict[str, dict[str, list[str]]] = json.loads(text)
    return manifest


def page_tags(page: str) -> Markup:
    """Return the tags of the files of a page; of its bundle if that has the same files."""
    names = files_of(page, features())
    built = _manifest().get(page)
    if built and built["files"] == names:
        names = [f"{BUNDLES.name}/{name}" for name in built["bundle"]]
    tags = [_tag(url_for("static", filename=name)) for name in names]
    return Markup("\n  ").join(tags)


def _tag(address: str) -> Markup:
    if address.endswith(".css"):
        return Markup('<link rel="stylesheet" href="{}">').format(address)
    return Markup('<script type="module" src="{}"></script>').format(address)
