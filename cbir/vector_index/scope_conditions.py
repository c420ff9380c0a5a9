"""SQL conditions of a scope, for the tables of a collection."""

from sqlalchemy import ColumnElement

from cbir.store.schema import images
from cbir.vector_index.port import IndexScope


def scope_conditions(scope: IndexScope) -> list[ColumnElement[bool]]:
    """Return the SQL conditions on `images` that together select the images of `scope`."""
    conditions = [condition.matches() for condition in scope.where]
    conditions += [patient.contains() for patient in scope.of_patients]
    if scope.without_patients:
        key = images.c.patient_key
        conditions.append(key.is_(None) | key.not_in(scope.without_patients))
    if scope.without_contents:
        conditions.append(images.c.content_hash.not_in(scope.without_contents))
    if scope.outside:
        conditions.append(~scope.outside.excludes())
    return conditions
