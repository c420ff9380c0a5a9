"""Images that may answer a request, as the scope that an index filters by."""

from collections.abc import Sequence
from dataclasses import replace

from cbir.search.search_request import Request
from cbir.store import Collection
from cbir.store.index.port import IndexScope
from cbir.store.records.records import hash_patient


def request_scope(collection: Collection, request: Request, contents: Sequence[str]) -> IndexScope:
    """Return the scope of a request.

    Parameters
    ----------
    collection : Collection
        Collection that is searched.
    request : Request
        Parameters of the search.
    contents : sequence of str
        Content hashes of the query images, whose copies are left out.

    Raises
    ------
    InvalidInput
        For a condition that cannot be read.
    """
    keys = [key for key in (request.exclude_patient_key, request.exclude_patient) if key]
    if request.exclude_patient and (key := hash_patient(collection.secret, request.exclude_patient)):
        keys.append(key)
    return IndexScope(
        where=tuple(collection.conditions(request.where)),
        of_patients=(request.of_patient,) if request.of_patient else (),
        without_patients=tuple(keys),
        without_contents=tuple(filter(None, contents)),
        outside=request.outside,
    )


def without_absent(collection: Collection, scope: IndexScope) -> IndexScope:
    """Return a scope without query images that are not in the collection, as most are: an index is faster then."""
    contents = tuple(each for each in scope.without_contents if len(collection.numbers_showing([each])))
    return replace(scope, without_contents=contents)


def without_filter(scope: IndexScope) -> IndexScope:
    """Return the images that relevance may flow through: those of `scope`, and those that its filters leave out."""
    return replace(scope, where=(), of_patients=())
