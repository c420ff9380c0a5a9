"""Records and vectors on disk: a SQLite database and the index derived from it."""

from typing import TYPE_CHECKING, Any

from cbir.store.records import Record

if TYPE_CHECKING:
    from sqlalchemy.exc import DatabaseError

    from cbir.store.collection import Collection
    from cbir.store.collection_view import View

__all__ = ["Collection", "DatabaseError", "Record", "View"]


def __getattr__(name: str) -> Any:
    """Import database and FAISS on first use: a process that only describes images needs neither."""
    if name == "Collection":
        from cbir.store.collection import Collection

        return Collection
    if name == "View":
        from cbir.store.collection_view import View

        return View
    if name == "DatabaseError":
        from sqlalchemy.exc import DatabaseError

        return DatabaseError
    raise AttributeError(name)
