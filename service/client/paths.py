"""Paths of the API that name a collection."""

from urllib.parse import quote

COLLECTION_RULE = "/v1/collections/<collection>"  # as Flask's rules write it


def path_in_collection(path: str, collection: str | None = None) -> str:
    """Return the path of an operation below that of a collection.

    Parameters
    ----------
    path : str
        Path without a collection: "/v1/images", "/v1/collection/profile", "/dicomweb/studies".
    collection : str, optional
        Name of the collection; by default the variable of a URL rule.

    Returns
    -------
    str
        "/v1/collections/NAME/images", "/v1/collections/NAME/profile", "/v1/collections/NAME/dicomweb/studies".
    """
    start = f"/v1/collections/{quote(collection, safe='')}" if collection else COLLECTION_RULE
    for prefix in ("/v1/collection", "/v1"):
        if path == prefix or path.startswith(f"{prefix}/"):
            return start + path.removeprefix(prefix)
    return start + path
