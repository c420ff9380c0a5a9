"""Scopes that the addresses need."""

from cbir.system.access_rights import Scope
from service.access.scopes import AccessRule

RULES = {
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
}
