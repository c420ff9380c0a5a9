"""Records and vectors on disk: a database, SQLite or PostgreSQL, and the snapshot derived from it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy.exc import DatabaseError

    from cbir.store.collection import Collection
    from cbir.store.records.records import Record
    from cbir.store.views.collection_view import View

MODULES = {
    "Collection": "cbir.store.collection",
    "DatabaseError": "sqlalchemy.exc",
    "Record": "cbir.store.records.records",
    "View": "cbir.store.views.collection_view",
}

__all__ = ["Collection", "DatabaseError", "Record", "View"]


def __getattr__(name: str) -> Any:
    """Import on first use: describing images needs neither database nor FAISS, and a help text nothing."""
    if name not in MODULES:
        raise AttributeError(name)
    return getattr(import_module(MODULES[name]), name)
