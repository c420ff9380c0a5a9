"""Scope that each address needs. An address without a rule is refused if tokens are needed."""

import re
from enum import Enum
from typing import NamedTuple

from flask import Flask, Request, current_app

from cbir.system.access_rights import Scope
from cbir.system.features import FeatureUnusable, features
from service.http.collection_paths import older_addresses


class OpenTo(Enum):
    """Access to addresses that need no scope."""

    anyone = "open to everyone"
    any_token = "open to every valid token"
    unlimited_token = "open to every valid token that is limited to no collections or images"


class AccessRule(NamedTuple):
    """Scope that a request needs, and its action in the audit log; None for requests that are not logged.

    unlimited: refuses callers that are limited to a part of the collections or images. ticket: an image ticket in the
    address stands for the token that got it. framed: other sites may show the page in a frame, also to log in.
    """

    need: Scope | OpenTo
    action: str | None = None
    unlimited: bool = False
    ticket: bool = False
    framed: bool = False


ANY_TOKEN = AccessRule(OpenTo.any_token)

RULES: dict[str, AccessRule] = {  # of the core; see `all_rules`
    # Health checks, and what the login page needs.
    "GET /healthz": AccessRule(OpenTo.anyone),
    "GET /livez": AccessRule(OpenTo.anyone),
    "GET /readyz": AccessRule(OpenTo.anyone),
    "GET /static/*": AccessRule(OpenTo.anyone),
    "GET /languages/*/*.json": AccessRule(OpenTo.anyone),
    "GET /login": AccessRule(OpenTo.anyone),
    "POST /login": AccessRule(OpenTo.anyone, "login"),
    "GET /login/done": AccessRule(OpenTo.anyone),
    "POST /logout": AccessRule(OpenTo.anyone, "logout"),
    "GET /metrics": AccessRule(OpenTo.unlimited_token),
    "GET /docs/errors": AccessRule(OpenTo.anyone),
    "GET /docs": AccessRule(OpenTo.any_token),
    "GET /openapi.json": AccessRule(OpenTo.any_token),
    # Searching and viewing.
    "GET /": AccessRule(Scope.search),
    "GET /browse": AccessRule(Scope.search),
    "POST /v1/search": AccessRule(Scope.search, "search"),
    "POST /v1/search/batch": AccessRule(Scope.search, "search"),
    # Not logged: shows the upload and nothing of a collection.
    "POST /v1/render": AccessRule(Scope.search),
    "GET /v1/images": AccessRule(Scope.search, "list"),
    "POST /v1/images/export": AccessRule(Scope.search, "list"),
    "GET /v1/images/*": AccessRule(Scope.search, "record"),
    # Not logged: a page shows dozens at a time, of images that the lines of searches and lists name.
    "GET /v1/images/*/thumbnail": AccessRule(Scope.search),
    "GET /v1/images/*/picture": AccessRule(Scope.search, "picture"),
    "GET /v1/images/*/original": AccessRule(Scope.originals, "original"),
    # Pictures can be approximated from vectors.
    "GET /v1/images/*/vector": AccessRule(Scope.originals, "vector"),
    "POST /v1/vectors": AccessRule(Scope.originals, "vector"),
    "GET /v1/series": AccessRule(Scope.search, "list"),
    "POST /v1/images/records": AccessRule(Scope.search, "list"),
    "GET /v1/labels": AccessRule(Scope.search),
    "GET /v1/labels/*": AccessRule(Scope.search),
    "GET /v1/collections": ANY_TOKEN,  # of those that the token may use
    "GET /v1/rerankers": AccessRule(Scope.search),
    "GET /v1/collection": AccessRule(Scope.search),
    "GET /v1/collection/profile": AccessRule(Scope.search),
    "GET /v1/collection/statistics": AccessRule(Scope.search),
    # Adding images.
    "POST /v1/images": AccessRule(Scope.ingest, "ingest"),
    "POST /dicomweb/studies": AccessRule(Scope.ingest, "ingest"),
    "POST /dicomweb/studies/*": AccessRule(Scope.ingest, "ingest"),
    "POST /v1/jobs": AccessRule(Scope.ingest, "ingest"),
    "GET /v1/jobs": AccessRule(Scope.ingest),
    "GET /v1/jobs/*": AccessRule(Scope.ingest),
    "POST /v1/jobs/*/cancel": AccessRule(Scope.ingest, "cancel"),
    "POST /v1/jobs/*/retry": AccessRule(Scope.ingest, "retry"),
    # Changing and deleting.
    "PATCH /v1/images": AccessRule(Scope.annotate, "relabel"),
    "PATCH /v1/images/*": AccessRule(Scope.annotate, "relabel"),
    "POST /v1/images/delete": AccessRule(Scope.admin, "delete"),
    "DELETE /v1/images/*": AccessRule(Scope.admin, "delete"),
    "DELETE /v1/patients/*": AccessRule(Scope.admin, "erase"),
    "GET /v1/collection/history": AccessRule(Scope.admin, "history"),
    # Running the service.
    "GET /admin": AccessRule(Scope.admin, unlimited=True),
    "GET /v1/admin/tokens": AccessRule(Scope.admin, unlimited=True),
    "POST /v1/admin/tokens": AccessRule(Scope.admin, "token-create", unlimited=True),
    "POST /v1/admin/tokens/*/revoke": AccessRule(Scope.admin, "token-revoke", unlimited=True),
    "GET /v1/admin/collections": AccessRule(Scope.admin, unlimited=True),
    "GET /v1/admin/requests": AccessRule(Scope.admin, unlimited=True),
    "GET /v1/admin/health": AccessRule(Scope.admin, unlimited=True),
    "GET /v1/admin/settings": AccessRule(Scope.admin, unlimited=True),
}

RULES_EXTENSION = "cbir-scopes"  # key in app.extensions of an app with its own rules


def all_rules() -> dict[str, AccessRule]:
    """Return the access rules of the core and of features; raises FeatureUnusable if two are of one address."""
    rules = dict(RULES)
    for feature in features():
        added = feature.load(feature.access) if feature.access else {}
        if repeated := rules.keys() & added.keys():
            raise FeatureUnusable(f"feature {feature.name}: there is another access rule of {min(repeated)}")
        rules |= added
    return rules


def find_rule(method: str, url_rule: str, rules: dict[str, AccessRule] | None = None) -> AccessRule | None:
    """Return the access rule of an address, or None if there is none.

    Parameters
    ----------
    method : str
        HTTP method.
    url_rule : str
        Flask's URL rule, "/v1/images/<image_id>" for example.
    rules : dict, optional
        Access rules by method and path; by default those of `all_rules`.

    Returns
    -------
    AccessRule or None
    """
    method = "GET" if method == "HEAD" else method
    rules = all_rules() if rules is None else rules
    return rules.get(f"{method} {re.sub(r'<[^<>]*>', '*', url_rule)}")


def rule_of_address(app: Flask, method: str, url_rule: str) -> AccessRule | None:
    """Return the access rule of an address; below a collection it is that of the address without one.

    Parameters
    ----------
    app : Flask
    method : str
        HTTP method.
    url_rule : str
        Flask's URL rule of `app`.
    """
    return find_rule(
        method, older_addresses(app).get(url_rule, url_rule), app.extensions.get(RULES_EXTENSION)
    )


def rule_of_request(request: Request) -> AccessRule | None:
    """Return the access rule of `request`. Only callers with a token learn that an address does not exist."""
    if request.url_rule is None or request.method == "OPTIONS":
        return ANY_TOKEN
    return rule_of_address(current_app, request.method, request.url_rule.rule)
