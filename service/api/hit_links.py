"""Addresses of images on the service, and elsewhere."""

from urllib.parse import quote

from cbir.external_links import external_links
from cbir.search import Hit, Links
from cbir.settings import Settings
from cbir.store import Record


def links(image_id: str, collection: str | None, **places: str | None) -> Links:
    """Where an image is; collection: None for the first one, which needs not be named.

    places: `rendered` and `viewer`, see `cbir.external_links.external_links`.
    """
    address, query = f"/v1/images/{quote(image_id)}", f"?collection={quote(collection)}" if collection else ""
    return Links(thumbnail=f"{address}/thumbnail{query}", image=f"{address}{query}", **places)


def of_hit(hit: Hit, collection: str | None) -> Links:
    """Those of an answer, in a collection that the client named."""
    return links(hit.image_id, collection, rendered=hit.links.rendered, viewer=hit.links.viewer)


def of_record(settings: Settings, record: Record, collection: str | None) -> Links:
    """Those of an image."""
    places = external_links(settings, record.study, record.series, record.instance, record.frame)
    return links(record.image_id, collection, **places)
