"""Scopes that the addresses need."""

from cbir.system.access_rights import Scope
from service.access.scopes import AccessRule

RULES = {
    # An audit is of all images, and leads to corrections of labels.
    "GET /audit": AccessRule(Scope.annotate, unlimited=True),
    "GET /v1/audit": AccessRule(Scope.annotate, "audit", unlimited=True),
    "POST /v1/audit": AccessRule(Scope.annotate, "start-audit", unlimited=True),
    "GET /quarantine": AccessRule(Scope.admin, unlimited=True),
    "GET /v1/quarantine": AccessRule(Scope.admin, "quarantine", unlimited=True),
    "GET /v1/quarantine/*/thumbnail": AccessRule(Scope.admin, "quarantine", unlimited=True),
    "POST /v1/quarantine/*/release": AccessRule(Scope.admin, "release", unlimited=True),
    "DELETE /v1/quarantine/*": AccessRule(Scope.admin, "refuse", unlimited=True),
}
