"""The language of a request: of the parameter `lang`, the cookie, or the browser; otherwise English.

Templates are translated into it, and the messages of the pages' scripts are JSON, which translate.js loads.
"""

import hashlib
import json
from datetime import datetime
from functools import cache
from urllib.parse import urlencode

from babel.dates import format_date, format_datetime
from babel.numbers import format_decimal
from flask import Blueprint, Flask, Response, g, request
from werkzeug.exceptions import NotFound

from service.languages.catalogues import ENGLISH, Language, languages

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


COOKIE = "cbir-language"
COOKIE_SECONDS = 365 * 24 * 3600
PARAMETER = "lang"


def install(app: Flask) -> None:
    """Translate the templates of `app` into the language of the request."""
    environment = app.jinja_env
    environment.policies["ext.i18n.trimmed"] = True
    environment.add_extension("jinja2.ext.i18n")
    environment.install_gettext_callables(_lookup, _lookup_plural, newstyle=True, pgettext=_lookup_in_context)  # type: ignore[attr-defined]
    environment.filters |= {"number": format_number, "day": format_day, "time": format_time}
    app.context_processor(_for_templates)
    app.after_request(_add_headers)
    app.register_blueprint(blueprint)


def current_language() -> Language:
    """Return the language of the current request."""
    if "language" not in g:
        g.language = _choose()
    language: Language = g.language
    return language


def use_english() -> None:
    """Answer the current request in English, without a choice of languages: with a page that is not translated."""
    g.language, g.offered_languages = languages()[ENGLISH], []


def gettext(message: str, **values: object) -> str:
    """Return `message` in the language of the request, with `values` in the places that it names: `%(name)s`."""
    return _lookup(message) % values


def mark(message: str) -> str:
    """Return `message` itself: a constant to translate later, which the catalogues must contain."""
    return message


def ngettext(singular: str, plural: str, count: int, **values: object) -> str:
    """Return the form of a message for `count` in the language of the request; `%(count)s` is the number."""
    return _lookup_plural(singular, plural, count) % ({"count": format_number(count)} | values)


def format_number(number: float) -> str:
    """Return a number as the language of the request writes it: 13,549 or 13.549."""
    return format_decimal(number, locale=current_language().locale)


def format_day(moment: str) -> str:
    """Return the day of a time in ISO 8601 as the language of the request writes it: Nov 23, 2026 or 23.11.2026."""
    return format_date(datetime.fromisoformat(moment), locale=current_language().locale)


def format_time(moment: datetime) -> str:
    """Return a time as the language of the request writes it, in its own time zone."""
    return format_datetime(moment, tzinfo=moment.tzinfo, locale=current_language().locale)


def _lookup(message: str) -> str:
    return current_language().translations.gettext(message)


def _lookup_plural(singular: str, plural: str, count: int) -> str:
    return current_language().translations.ngettext(singular, plural, count)


def _lookup_in_context(context: str, message: str) -> str:
    return str(current_language().translations.pgettext(context, message))


def _choose() -> Language:
    by_tag = languages()
    for tag in (request.args.get(PARAMETER), request.cookies.get(COOKIE)):
        if tag in by_tag:
            return by_tag[tag]
    for accepted, quality in request.accept_languages:
        if not quality:  # RFC 9110, section 12.4.2: not acceptable
            continue
        for tag, language in by_tag.items():
            if tag == accepted or tag.split("-")[0] == accepted.lower().split("-")[0]:
                return language
    return by_tag[ENGLISH]


def _for_templates() -> dict[str, object]:
    language = current_language()
    return {
        "language": language,
        "languages": g.get("offered_languages", list(languages().values())),
        "catalogue": None if language.tag == ENGLISH else address_of(language.tag),
        "address_in": _address_in,
    }


def _address_in(language: Language) -> str:
    """Return the address of this page in another language, relative to itself."""
    arguments = request.args.to_dict(flat=False) | {PARAMETER: [language.tag]}
    return f"?{urlencode(arguments, doseq=True)}"


def _add_headers(response: Response) -> Response:
    """Say which language a page is in and what it depends on, and remember a choice made by hand."""
    if "language" in g and response.mimetype == "text/html":
        response.content_language = [g.language.tag]
        response.vary.update(["Accept-Language", "Cookie"])
        if request.args.get(PARAMETER) == g.language.tag:
            response.set_cookie(
                COOKIE,
                g.language.tag,
                COOKIE_SECONDS,
                secure=request.is_secure,
                httponly=True,
                samesite="Lax",
            )
    return response
