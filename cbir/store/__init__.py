"""Vectors and records, together or not at all."""

from typing import TYPE_CHECKING, Any

from cbir.store.records import Record

if TYPE_CHECKING:
    from cbir.store.collection import Collection
    from cbir.store.view import View

__all__ = ["Collection", "Record", "View"]


def __getattr__(name: str) -> Any:
    """Load what needs the database and FAISS when it is asked for: a process that extracts needs neither."""
    if name == "Collection":
        from cbir.store.collection import Collection

        return Collection
    if name == "View":
        from cbir.store.view import View

        return View
    raise AttributeError(name)
