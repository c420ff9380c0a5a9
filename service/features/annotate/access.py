"""Scopes that the addresses need."""

from cbir.system.access_rights import Scope
from service.access.scopes import AccessRule

RULES = {
    "GET /study": AccessRule(Scope.search),
    "GET /study/*": AccessRule(Scope.search),
    "POST /study/*/items": AccessRule(Scope.search, "study"),
    "POST /study/*/answers": AccessRule(Scope.search, "study-answer"),
    "GET /study/*/results": AccessRule(Scope.admin, "study-results"),
    "GET /study/*/answers.csv": AccessRule(Scope.admin, "study-results"),
}
