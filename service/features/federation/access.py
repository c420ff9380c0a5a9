"""Scopes that the addresses need."""

from cbir.system.access_rights import Scope
from service.access.scopes import AccessRule

RULES = {
    # Of other services: their token needs this scope, and may do nothing else.
    "GET /v1/federation/profile": AccessRule(Scope.federate, "site-profile"),
    "POST /v1/federation/search": AccessRule(Scope.federate, "site-search"),
}
