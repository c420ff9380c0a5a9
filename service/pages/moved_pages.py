"""Addresses of pages that have moved, so that saved links go on working."""

from flask import Flask, current_app, redirect, request
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response

from service.access.scopes import rule_of_address
from service.access.security import SAFE_METHODS

# By the beginning of the old address; what follows it stays.
MOVED = {
    "/gallery": "/browse",
    "/map": "/browse",
    "/cases": "/saved/cases",
    "/cohorts": "/saved/cohorts",
    "/audit": "/quality",
    "/quarantine": "/quality#quarantine",
    "/study": "/studies",  # the list alone: a study is still below /study
}
LISTS = {"/saved/cases": "/saved", "/saved/cohorts": "/saved#cohorts"}  # pages that list what is below these


def install(app: Flask) -> None:
    """Redirect from old addresses to those new ones that the app has pages for."""
    app.before_request(_redirect)


def new_address(path: str) -> str:
    """Return where the page of an old path is now; "" for a path that has not moved."""
    for old, new in MOVED.items():
        if path == old or path.startswith(f"{old}/"):
            moved = new + path.removeprefix(old)
            return LISTS.get(moved, moved)
    return ""


def _redirect() -> Response | None:
    path, mark, tab = (new_address(request.path) if request.method in SAFE_METHODS else "").partition("#")
    if not path or not _is_page(path):
        return None
    query = request.query_string.decode("latin-1")
    return redirect((f"{path}?{query}" if query else path) + mark + tab, 302)


def _is_page(path: str) -> bool:
    try:
        rule, _ = current_app.url_map.bind("localhost").match(path, "GET", return_rule=True)
    except HTTPException:
        return False
    return rule_of_address(current_app, "GET", rule.rule) is not None  # None: an app that leaves the page out
