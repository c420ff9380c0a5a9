"""Scope that each address needs. An address without a rule is refused if tokens are needed."""

import re
from enum import Enum
from typing import NamedTuple

from flask import Request, current_app

from cbir.system.access_rights import Scope


class OpenTo(Enum):
    """Access to addresses that need no scope."""

    anyone = "open to everyone"
    any_token = "open to every valid token"
    unlimited_token = "open to every valid token that is limited to no collections or images"


class AccessRule(NamedTuple):
    """Scope that a request needs, and its action in the audit log; None for requests that are not logged.

    unlimited: refuses callers that are limited to a part of the collections or images.
    """

    need: Scope | OpenTo
    action: str | None = None
    unlimited: bool = False


ANY_TOKEN = AccessRule(OpenTo.any_token)
TICKET_ADDRESS = "GET /monailabel/datastore/image"  # where a ticket stands for the token that got it

RULES: dict[str, AccessRule] = {
    # Health checks, and what the login page needs.
    "GET /healthz": AccessRule(OpenTo.anyone),
    "GET /livez": AccessRule(OpenTo.anyone),
    "GET /readyz": AccessRule(OpenTo.anyone),
    "GET /static/*": AccessRule(OpenTo.anyone),
    "GET /languages/*/*.json": AccessRule(OpenTo.anyone),
    "GET /login": AccessRule(OpenTo.anyone),
    "POST /login": AccessRule(OpenTo.anyone, "login"),
    "GET /login/done": AccessRule(OpenTo.anyone),
    "GET /login/oidc": AccessRule(OpenTo.anyone),
    "GET /login/oidc/callback": AccessRule(OpenTo.anyone, "login"),
    "POST /logout": AccessRule(OpenTo.anyone, "logout"),
    "GET /metrics": AccessRule(OpenTo.unlimited_token),
    "GET /docs/errors": AccessRule(OpenTo.anyone),
    "GET /docs": AccessRule(OpenTo.any_token),
    "GET /docs/slice.dcm": AccessRule(OpenTo.any_token),
    "GET /openapi.json": AccessRule(OpenTo.any_token),
    # Searching and viewing.
    "GET /": AccessRule(Scope.search),
    "GET /gallery": AccessRule(Scope.search),
    "GET /map": AccessRule(Scope.search),
    "GET /study": AccessRule(Scope.search),
    "GET /study/*": AccessRule(Scope.search),
    "POST /study/*/items": AccessRule(Scope.search, "study"),
    "POST /study/*/answers": AccessRule(Scope.search, "study-answer"),
    "GET /study/*/results": AccessRule(Scope.admin, "study-results"),
    "GET /study/*/answers.csv": AccessRule(Scope.admin, "study-results"),
    # Not logged: names images that the lines of searches name.
    "POST /usage": AccessRule(Scope.search),
    "GET /similar": AccessRule(Scope.search, "search"),
    "POST /v1/search": AccessRule(Scope.search, "search"),
    "POST /v1/search/batch": AccessRule(Scope.search, "search"),
    "GET /v1/similar": AccessRule(Scope.search, "search"),
    "GET /dicomweb/studies/*/similar": AccessRule(Scope.search, "search"),
    "GET /v1/images/*/priors": AccessRule(Scope.search, "search"),
    "GET /dicomweb/studies/*/priors": AccessRule(Scope.search, "search"),
    "GET /dicomweb/studies/*/series/*/similar": AccessRule(Scope.search, "search"),
    "GET /dicomweb/studies/*/series/*/instances/*/similar": AccessRule(Scope.search, "search"),
    "POST /v1/grade": AccessRule(Scope.search, "grade"),
    "POST /v1/explain": AccessRule(Scope.search, "explain"),
    # Not logged: shows the upload and nothing of a collection.
    "POST /v1/render": AccessRule(Scope.search),
    # Of other services: their token needs this scope, and may do nothing else.
    "GET /v1/federation/profile": AccessRule(Scope.federate, "site-profile"),
    "POST /v1/federation/search": AccessRule(Scope.federate, "site-search"),
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
    # Saved cases; the caller's own and shared ones.
    "GET /cases": AccessRule(Scope.search),
    "GET /cases/*": AccessRule(Scope.search, "case"),
    "GET /v1/cases": AccessRule(Scope.search, "cases"),
    "POST /v1/cases": AccessRule(Scope.search, "save-case"),
    "GET /v1/cases/*": AccessRule(Scope.search, "case"),
    "PATCH /v1/cases/*": AccessRule(Scope.search, "change-case"),
    "DELETE /v1/cases/*": AccessRule(Scope.search, "delete-case"),
    "GET /v1/cases/*/picture": AccessRule(Scope.search),  # not logged: a page shows dozens
    "GET /v1/cases/*/export": AccessRule(Scope.search, "export-case"),
    # Cohorts; the caller's own and shared ones.
    "GET /cohorts": AccessRule(Scope.search),
    "GET /cohorts/*": AccessRule(Scope.search),
    "GET /v1/cohorts": AccessRule(Scope.search, "cohorts"),
    "POST /v1/cohorts": AccessRule(Scope.search, "begin-cohort"),
    "GET /v1/cohorts/*": AccessRule(Scope.search, "cohort"),
    "PATCH /v1/cohorts/*": AccessRule(Scope.search, "change-cohort"),
    "DELETE /v1/cohorts/*": AccessRule(Scope.search, "delete-cohort"),
    "POST /v1/cohorts/*/batch": AccessRule(Scope.search, "search"),
    "POST /v1/cohorts/*/judgements": AccessRule(Scope.search, "judge-cohort"),
    "POST /v1/cohorts/*/undo": AccessRule(Scope.search, "judge-cohort"),
    "GET /v1/cohorts/*/estimate": AccessRule(Scope.search, "cohort"),
    "GET /v1/cohorts/*/export": AccessRule(Scope.search, "export-cohort"),
    "GET /v1/map": AccessRule(Scope.search, "list"),
    "GET /v1/map/labels/*": AccessRule(Scope.search),
    "POST /v1/map/places": AccessRule(Scope.search, "list"),
    "POST /v1/images/records": AccessRule(Scope.search, "list"),
    "GET /v1/labels": AccessRule(Scope.search),
    "GET /v1/labels/*": AccessRule(Scope.search),
    "GET /v1/collections": AccessRule(Scope.search),
    "GET /v1/rerankers": AccessRule(Scope.search),
    "GET /v1/collection": AccessRule(Scope.search),
    "GET /v1/collection/profile": AccessRule(Scope.search),
    "GET /v1/collection/statistics": AccessRule(Scope.search),
    # Plugins of MONAI Label: active learning, and segmentations.
    "GET /monailabel/auth/": AccessRule(OpenTo.anyone),
    "POST /monailabel/auth/token": AccessRule(OpenTo.anyone, "login"),
    "GET /monailabel/auth/token/valid": ANY_TOKEN,
    "GET /monailabel/info/": AccessRule(Scope.search),
    "POST /monailabel/activelearning/*": AccessRule(Scope.search, "next-sample"),
    "GET /monailabel/datastore/": AccessRule(Scope.search, "list"),
    TICKET_ADDRESS: AccessRule(Scope.search, "picture"),
    "GET /monailabel/datastore/image/info": AccessRule(Scope.search, "record"),
    "GET /monailabel/datastore/label": AccessRule(Scope.search, "segmentation"),
    "PUT /monailabel/datastore/label": AccessRule(Scope.annotate, "save-segmentation"),
    # Adding images.
    "POST /v1/images": AccessRule(Scope.ingest, "ingest"),
    "POST /dicomweb/studies": AccessRule(Scope.ingest, "ingest"),
    "POST /dicomweb/studies/*": AccessRule(Scope.ingest, "ingest"),
    "POST /v1/jobs": AccessRule(Scope.ingest, "ingest"),
    "GET /v1/jobs": AccessRule(Scope.ingest),
    "GET /v1/jobs/*": AccessRule(Scope.ingest),
    "POST /v1/jobs/*/cancel": AccessRule(Scope.ingest, "cancel"),
    "POST /v1/jobs/*/retry": AccessRule(Scope.ingest, "retry"),
    # An audit is of all images, and leads to corrections of labels.
    "GET /audit": AccessRule(Scope.annotate, unlimited=True),
    "GET /v1/audit": AccessRule(Scope.annotate, "audit", unlimited=True),
    "POST /v1/audit": AccessRule(Scope.annotate, "start-audit", unlimited=True),
    # Changing and deleting.
    "PATCH /v1/images": AccessRule(Scope.annotate, "relabel"),
    "PATCH /v1/images/*": AccessRule(Scope.annotate, "relabel"),
    "POST /v1/images/delete": AccessRule(Scope.admin, "delete"),
    "DELETE /v1/images/*": AccessRule(Scope.admin, "delete"),
    "DELETE /v1/patients/*": AccessRule(Scope.admin, "erase"),
    "GET /quarantine": AccessRule(Scope.admin, unlimited=True),
    "GET /v1/quarantine": AccessRule(Scope.admin, "quarantine", unlimited=True),
    "GET /v1/quarantine/*/thumbnail": AccessRule(Scope.admin, "quarantine", unlimited=True),
    "POST /v1/quarantine/*/release": AccessRule(Scope.admin, "release", unlimited=True),
    "DELETE /v1/quarantine/*": AccessRule(Scope.admin, "refuse", unlimited=True),
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


def find_rule(method: str, url_rule: str, rules: dict[str, AccessRule] = RULES) -> AccessRule | None:
    """Return the access rule of an address, or None if there is none.

    Parameters
    ----------
    method : str
        HTTP method.
    url_rule : str
        Flask's URL rule, "/v1/images/<image_id>" for example.
    rules : dict
        Access rules by method and path.

    Returns
    -------
    AccessRule or None
    """
    method = "GET" if method == "HEAD" else method
    return rules.get(f"{method} {re.sub(r'<[^<>]*>', '*', url_rule)}")


def rule_of_request(request: Request) -> AccessRule | None:
    """Return the access rule of `request`. Only callers with a token learn that an address does not exist."""
    if request.url_rule is None or request.method == "OPTIONS":
        return ANY_TOKEN
    return find_rule(
        request.method, request.url_rule.rule, current_app.extensions.get(RULES_EXTENSION, RULES)
    )
