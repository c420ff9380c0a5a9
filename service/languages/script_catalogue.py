"""Messages of the pages' scripts as JSON; translate.js loads them."""

import hashlib
import json
from functools import cache

from flask import Blueprint, Response
from werkzeug.exceptions import NotFound

from service.languages.catalogues import languages

blueprint = Blueprint("languages", __name__)

CACHE_CONTROL = "public, max-age=31536000, immutable"  # the address contains a hash of the content


@cache
def script_json(tag: str) -> bytes:
    """Return the messages of a language as JSON."""
    return json.dumps(languages()[tag].script_catalogue._asdict(), ensure_ascii=False).encode()


@cache
def version_of(tag: str) -> str:
    """Return a hash of the messages of a language, for their address."""
    return hashlib.sha256(script_json(tag)).hexdigest()[:16]


def address_of(tag: str) -> str:
    """Return the address of the messages of a language."""
    return f"/languages/{tag}/{version_of(tag)}.json"


@blueprint.get("/languages/<tag>/<version>.json")
def get_script_catalogue(tag: str, version: str) -> Response:
    """Return the messages of scripts in a language."""
    if tag not in languages() or version != version_of(tag):
        raise NotFound("no such catalogue; reload the page")
    response = Response(script_json(tag), mimetype="application/json")
    response.headers["Cache-Control"] = CACHE_CONTROL
    return response
