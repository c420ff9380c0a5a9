"""Scopes that the addresses need."""

from cbir.system.access_rights import Scope
from service.access.scopes import AccessRule

RULES = {
    # Not logged: names images that the lines of searches name.
    "POST /usage": AccessRule(Scope.search),
}
