"""Scopes that the addresses need."""

from service.access.scopes import AccessRule, OpenTo

RULES = {
    "GET /login/oidc": AccessRule(OpenTo.anyone),
    "GET /login/oidc/callback": AccessRule(OpenTo.anyone, "login"),
}
