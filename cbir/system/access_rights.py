"""Rights of the service's callers: scopes, collections, and a label filter."""

import re
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, model_validator


class Scope(StrEnum):
    """Permission of a caller; admin includes all others."""

    search = "search"
    ingest = "ingest"
    annotate = "annotate"
    originals = "originals"
    federate = "federate"
    admin = "admin"


HEADER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
RESERVED_HEADERS = ("authorization", "cookie", "host", "origin", "content-type", "content-length")
UNFILTERED = (Scope.ingest, Scope.admin)  # adding an image shows whether the collection has the same picture


class Rights(BaseModel):
    """Rights of a caller.

    scopes: permissions. collections: names of the collections that it may use; empty: all of them.
    where: conditions such as "site=A" that an image must fulfil for the caller to see it; empty: every image.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    scopes: tuple[Scope, ...]
    collections: tuple[str, ...] = ()
    where: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _filter_suits_scopes(self) -> "Rights":
        unsuitable = [scope for scope in UNFILTERED if scope in self.scopes]
        if self.where and unsuitable:
            raise ValueError(
                f"a label filter (where) cannot limit the scope {unsuitable[0]}; use search, annotate and originals"
            )
        return self

    def allows(self, scope: Scope) -> bool:
        """Return True if the caller has `scope`."""
        return scope in self.scopes or Scope.admin in self.scopes

    def allows_collection(self, name: str) -> bool:
        """Return True if the caller may use the collection `name`."""
        return not self.collections or name in self.collections

    @property
    def limited(self) -> bool:
        """True if the caller may not see every image of every collection."""
        return bool(self.collections or self.where)


ALL_RIGHTS = Rights(scopes=(Scope.admin,))


def validate_header_name(name: str) -> str:
    """Return the `name` of a header that a proxy may set; raise ValueError."""
    if not HEADER_NAME.fullmatch(name) or name.lower() in RESERVED_HEADERS:
        raise ValueError(
            f"{name} is not the name of a header that a proxy can set; use X-Remote-User, for example"
        )
    return name
