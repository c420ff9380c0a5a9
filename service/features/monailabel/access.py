"""Scopes that the addresses need."""

from cbir.system.access_rights import Scope
from service.access.scopes import AccessRule, OpenTo

RULES = {
    # Plugins of MONAI Label: active learning, and segmentations.
    "GET /monailabel/auth/": AccessRule(OpenTo.anyone),
    "POST /monailabel/auth/token": AccessRule(OpenTo.anyone, "login"),
    "GET /monailabel/auth/token/valid": AccessRule(OpenTo.any_token),
    "GET /monailabel/info/": AccessRule(Scope.search),
    "POST /monailabel/activelearning/*": AccessRule(Scope.search, "next-sample"),
    "GET /monailabel/datastore/": AccessRule(Scope.search, "list"),
    "GET /monailabel/datastore/image": AccessRule(Scope.search, "picture", ticket=True),
    "GET /monailabel/datastore/image/info": AccessRule(Scope.search, "record"),
    "GET /monailabel/datastore/label": AccessRule(Scope.search, "segmentation"),
    "PUT /monailabel/datastore/label": AccessRule(Scope.annotate, "save-segmentation"),
}
