"""Records and vectors on disk: a SQLite database and the index derived from it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cbir.store.records import Record

if TYPE_CHECKING:
    from sqlalchemy.exc import DatabaseError

    from cbir.store.collection import Collection
    from cbir.store.collection_view import View

MODULES = {
    "Collection": "cbir.store.collection",
    "DatabaseError": "sqlalchemy.exc",
    "View": "cbir.store.collection_view",
}

__all__ = ["Collection", "DatabaseError", "Record", "View"]


def __getattr__(name: str) -> Any:
    """Import database and FAISS on first use: a process that only describes images needs neither."""
    if name not in MODULES:
        raise AttributeError(name)
    return getattr(import_module(MODULES[name]), name)
