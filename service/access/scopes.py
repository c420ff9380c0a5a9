"""What a token must be for, address by address. What has no line here is refused wherever tokens are needed."""

import re
from enum import Enum
from typing import NamedTuple

from flask import Request, current_app

from service.access.tokens import Scope


class Reach(Enum):
    """Addresses that ask for no scope."""

    anyone = "open to everybody"
    any_token = "open to every valid token"


class Entry(NamedTuple):
    """action: how the audit log calls a request; None for what it leaves out."""

    need: Scope | Reach
    action: str | None = None


TABLE: dict[str, Entry] = {
    # Whether it is up, and what the login page needs.
    "GET /healthz": Entry(Reach.anyone),
    "GET /livez": Entry(Reach.anyone),
    "GET /readyz": Entry(Reach.anyone),
    "GET /static/*": Entry(Reach.anyone),
    "GET /login": Entry(Reach.anyone),
    "POST /login": Entry(Reach.anyone, "login"),
    "POST /logout": Entry(Reach.anyone, "logout"),
    "GET /metrics": Entry(Reach.any_token),
    "GET /docs/errors": Entry(Reach.anyone),
    "GET /docs": Entry(Reach.any_token),
    "GET /openapi.json": Entry(Reach.any_token),
    # Looking.
    "GET /": Entry(Scope.search),
    "GET /similar": Entry(Scope.search, "search"),
    "POST /v1/search": Entry(Scope.search, "search"),
    "GET /v1/similar": Entry(Scope.search, "search"),
    "GET /dicomweb/studies/*/similar": Entry(Scope.search, "search"),
    "GET /dicomweb/studies/*/series/*/similar": Entry(Scope.search, "search"),
    "GET /dicomweb/studies/*/series/*/instances/*/similar": Entry(Scope.search, "search"),
    "POST /v1/grade": Entry(Scope.search, "grade"),
    "POST /v1/render": Entry(Scope.search),  # no action: it shows what was sent, and nothing of a collection
    "GET /v1/images": Entry(Scope.search, "list"),
    "GET /v1/images/*": Entry(Scope.search, "record"),
    # No action: a page shows dozens at a time, of images that the lines of searches and lists have named.
    "GET /v1/images/*/thumbnail": Entry(Scope.search),
    "GET /v1/images/*/picture": Entry(Scope.search, "picture"),
    "GET /v1/images/*/original": Entry(Scope.search, "original"),
    "GET /v1/collections": Entry(Scope.search),
    "GET /v1/collection": Entry(Scope.search),
    "GET /v1/collection/profile": Entry(Scope.search),
    "GET /v1/collection/statistics": Entry(Scope.search),
    # Bringing in.
    "POST /v1/images": Entry(Scope.ingest, "ingest"),
    "POST /dicomweb/studies": Entry(Scope.ingest, "ingest"),
    "POST /v1/jobs": Entry(Scope.ingest, "ingest"),
    "GET /v1/jobs": Entry(Scope.ingest),
    "GET /v1/jobs/*": Entry(Scope.ingest),
    "POST /v1/jobs/*/cancel": Entry(Scope.ingest, "cancel"),
    # Changing what is there.
    "PATCH /v1/images/*": Entry(Scope.annotate, "relabel"),
    "DELETE /v1/images/*": Entry(Scope.admin, "delete"),
    "DELETE /v1/patients/*": Entry(Scope.admin, "erase"),
    "GET /v1/collection/history": Entry(Scope.admin, "history"),
}

ANY_TOKEN = Entry(Reach.any_token)
EXTENSION = "cbir-scopes"  # in the extensions of an app that has a table of its own


def entry(method: str, rule: str, table: dict[str, Entry] = TABLE) -> Entry | None:
    """The line of a method and a rule of Flask's, "/v1/images/<image_id>" for instance; None where there is none."""
    reading = "GET" if method == "HEAD" else method
    return table.get(f"{reading} {re.sub(r'<[^>]*>', '*', rule)}")


def asked(request: Request) -> Entry | None:
    """The line of a request. Addresses that are not there are told to those with a token only."""
    if request.url_rule is None or request.method == "OPTIONS":
        return ANY_TOKEN
    return entry(request.method, request.url_rule.rule, current_app.extensions.get(EXTENSION, TABLE))
