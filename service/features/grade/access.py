"""Scopes that the addresses need."""

from cbir.system.access_rights import Scope
from service.access.scopes import AccessRule

RULES = {
    "POST /v1/grade": AccessRule(Scope.search, "grade"),
}
