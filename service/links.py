"""Addresses of images on the service."""

from urllib.parse import quote

from cbir.search import Links


def links(image_id: str, collection: str | None) -> Links:
    """Where an image is; collection: None for the first one, which needs not be named."""
    address, query = f"/v1/images/{quote(image_id)}", f"?collection={quote(collection)}" if collection else ""
    return Links(thumbnail=f"{address}/thumbnail{query}", image=f"{address}{query}")
