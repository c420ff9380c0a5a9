"""Scopes that the addresses need."""

from cbir.system.access_rights import Scope
from service.access.scopes import AccessRule

RULES = {
    "GET /map": AccessRule(Scope.search),
    "GET /v1/map": AccessRule(Scope.search, "list"),
    "GET /v1/map/labels/*": AccessRule(Scope.search),
    "POST /v1/map/places": AccessRule(Scope.search, "list"),
}
