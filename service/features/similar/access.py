"""Scopes that the addresses need."""

from cbir.system.access_rights import Scope
from service.access.scopes import AccessRule

RULES = {
    "GET /similar": AccessRule(Scope.search, "search", framed=True),
    "GET /v1/similar": AccessRule(Scope.search, "search"),
    "GET /dicomweb/studies/*/similar": AccessRule(Scope.search, "search"),
    "GET /v1/images/*/priors": AccessRule(Scope.search, "search"),
    "GET /dicomweb/studies/*/priors": AccessRule(Scope.search, "search"),
    "GET /dicomweb/studies/*/series/*/similar": AccessRule(Scope.search, "search"),
    "GET /dicomweb/studies/*/series/*/instances/*/similar": AccessRule(Scope.search, "search"),
}
