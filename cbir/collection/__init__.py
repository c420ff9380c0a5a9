"""Vectors and records, together or not at all."""

from cbir.collection.collection import Collection
from cbir.collection.records import Record
from cbir.collection.view import View

__all__ = ["Collection", "Record", "View"]
