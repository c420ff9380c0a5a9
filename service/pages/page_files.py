"""Scripts and style sheets of a page: its modules as they are, or the bundle that a wheel has in place of them.

`hatch_build.py` writes the bundles and their manifest when a wheel is made; a checkout has none.
"""

import json
from functools import cache
from pathlib import Path

from flask import Flask, Response, request, send_from_directory, url_for
from markupsafe import Markup

from cbir.system.features import features
from service.pages.page_list import files_of_page

BUNDLES = Path(__file__).parents[1] / "static" / "bundles"
MANIFEST = "manifest.json"  # by page: {"files": what is in the bundle, "bundle": its files}
IMMUTABLE = "public, max-age=31536000, immutable"  # names contain a hash of the content
COLOURS_COOKIE = "cbir-theme"  # of theme.js


def install(app: Flask) -> None:
    """Let templates of `app` load the files of a page, `{{ page_files("search") }}`, in its colours."""
    app.context_processor(lambda: {"page_files": page_tags, "colours": _colours()})


def _colours() -> str:
    return "light" if request.cookies.get(COLOURS_COOKIE) == "light" else "dark"


def bundle_response(filename: str) -> Response | None:
    """Return a file of a bundle, compressed if the browser can read that; None for other static files."""
    folder, _, name = filename.rpartition("/")
    if folder != BUNDLES.name or name == MANIFEST:
        return None
    compressed = request.accept_encodings["gzip"] > 0 and (BUNDLES / f"{name}.gz").is_file()
    kind = "text/css" if name.endswith(".css") else "text/javascript"
    response = send_from_directory(
        BUNDLES, f"{name}.gz" if compressed else name, mimetype=kind, conditional=False
    )
    response.headers["Cache-Control"] = IMMUTABLE
    response.vary.add("Accept-Encoding")
    if compressed:
        response.headers["Content-Encoding"] = "gzip"
    return response


@cache
def read_manifest() -> dict[str, dict[str, list[str]]]:
    """Return the manifest of the bundles; empty where there are none."""
    try:
        text = (BUNDLES / MANIFEST).read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    manifest: dict[str, dict[str, list[str]]] = json.loads(text)
    return manifest


def page_tags(page: str) -> Markup:
    """Return the tags of the files of a page; of its bundle if that has the same files."""
    names = files_of_page(page, features())
    built = read_manifest().get(page)
    if not built or built["files"] != names:
        return _tags(names, [])
    *parts, script = (f"{BUNDLES.name}/{name}" for name in built["bundle"])
    return _tags(
        [*(name for name in parts if name.endswith(".css")), script],
        [name for name in parts if name.endswith(".js")],
    )


def _tags(names: list[str], preloaded: list[str]) -> Markup:
    """Return the tags of files, and of parts of scripts that are to be loaded at once."""
    preloads = [Markup('<link rel="modulepreload" href="{}">').format(_address(name)) for name in preloaded]
    return Markup("\n  ").join([*preloads, *map(_tag, names)])


def _address(name: str) -> str:
    return url_for("static", filename=name)


def _tag(name: str) -> Markup:
    if name.endswith(".css"):
        return Markup('<link rel="stylesheet" href="{}">').format(_address(name))
    return Markup('<script type="module" src="{}"></script>').format(_address(name))
