"""Vectors and records, together or not at all."""

from typing import TYPE_CHECKING, Any

from cbir.collection.records import Record

if TYPE_CHECKING:
    from cbir.collection.collection import Collection
    from cbir.collection.view import View

__all__ = ["Collection", "Record", "View"]


def __getattr__(name: str) -> Any:
    """Load what needs the database and FAISS when it is asked for: a process that extracts needs neither."""
    if name == "Collection":
        from cbir.collection.collection import Collection

        return Collection
    if name == "View":
        from cbir.collection.view import View

        return View
    raise AttributeError(name)
