"""Access rules of the annotation server, in the form of `service.access.scopes`."""

from cbir.access_rights import Scope
from service.access.scopes import RULES, AccessRule, OpenTo

SHARED = (
    "GET /healthz",
    "GET /livez",
    "GET /static/*",
    "GET /languages/*/*.json",
    "GET /login",
    "POST /login",
    "POST /logout",
    "GET /docs/errors",
)
ANNOTATION_RULES: dict[str, AccessRule] = {address: RULES[address] for address in SHARED} | {
    "GET /annotate/static/*": AccessRule(OpenTo.anyone),
    "GET /annotate": AccessRule(Scope.annotate),
    "GET /annotate/pairs": AccessRule(Scope.annotate, "pairs"),
    # Not logged: the line of the pairs names the images.
    "GET /annotate/images/*/picture": AccessRule(Scope.annotate),
    "POST /annotate/judgements": AccessRule(Scope.annotate, "judge"),
    "POST /annotate/grades": AccessRule(Scope.annotate, "grade"),
    "POST /annotate/undo": AccessRule(Scope.annotate, "undo"),
    "POST /annotate/severity": AccessRule(Scope.annotate, "severity"),
}
