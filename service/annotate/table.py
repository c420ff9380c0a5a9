"""What a token must be for on the annotation server, address by address, as `service.access.scopes` has it."""

from service.access.scopes import TABLE, Entry, Reach
from service.access.tokens import Scope

SHARED = (
    "GET /healthz",
    "GET /livez",
    "GET /static/*",
    "GET /login",
    "POST /login",
    "POST /logout",
    "GET /docs/errors",
)
ANNOTATE: dict[str, Entry] = {address: TABLE[address] for address in SHARED} | {
    "GET /annotate/static/*": Entry(Reach.anyone),
    "GET /annotate": Entry(Scope.annotate),
    "GET /annotate/pairs": Entry(Scope.annotate, "pairs"),
    # No action: the line of the pairs that were handed out has named the images.
    "GET /annotate/images/*/picture": Entry(Scope.annotate),
    "POST /annotate/judgements": Entry(Scope.annotate, "judge"),
    "POST /annotate/undo": Entry(Scope.annotate, "undo"),
    "POST /annotate/severity": Entry(Scope.annotate, "severity"),
}
