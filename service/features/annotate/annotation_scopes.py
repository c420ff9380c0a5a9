"""Access rules of the annotation server, in the form of `service.access.scopes`."""

from cbir.system.access_rights import Scope
from service.access.scopes import RULES, AccessRule, OpenTo

SHARED = (
    "GET /healthz",
    "GET /livez",
    "GET /static/*",
    "GET /languages/*/*.json",
    "GET /login",
    "POST /login",
    "GET /login/done",
    "POST /logout",
    "GET /docs/errors",
)
ANNOTATION_RULES: dict[str, AccessRule] = {address: RULES[address] for address in SHARED} | {
    "GET /annotate/static/*": AccessRule(OpenTo.anyone),
    "GET /annotate": AccessRule(Scope.annotate),
    "GET /docs": AccessRule(Scope.annotate),
    "GET /openapi.json": AccessRule(Scope.annotate),
    "GET /annotate/single": AccessRule(Scope.annotate),
    "GET /annotate/review": AccessRule(Scope.annotate),
    "GET /annotate/pairs": AccessRule(Scope.annotate, "pairs"),
    "GET /annotate/images": AccessRule(Scope.annotate, "pairs"),
    "GET /annotate/judgements": AccessRule(Scope.annotate, "review"),
    "GET /annotate/agreement": AccessRule(Scope.annotate),
    "GET /annotate/export/judgements.csv": AccessRule(Scope.annotate, "export"),
    "GET /annotate/export/judgements.json": AccessRule(Scope.annotate, "export"),
    "GET /annotate/export/images.csv": AccessRule(Scope.annotate, "export"),
    # Not logged: the lines of pairs, images and reviews name the images.
    "GET /annotate/images/*/picture": AccessRule(Scope.annotate),
    "POST /annotate/judgements": AccessRule(Scope.annotate, "judge"),
    "POST /annotate/grades": AccessRule(Scope.annotate, "grade"),
    "POST /annotate/undo": AccessRule(Scope.annotate, "undo"),
    "POST /annotate/severity": AccessRule(Scope.annotate, "severity"),
}
