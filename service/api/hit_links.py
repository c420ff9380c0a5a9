"""Links of images on the service, in the archive and in the viewer."""

from urllib.parse import quote

from cbir.external_links import external_links
from cbir.search import Hit, Links
from cbir.settings import Settings
from cbir.store import Record


def image_links(
    image_id: str, collection: str | None, rendered: str | None = None, viewer: str | None = None
) -> Links:
    """Return the links of an image.

    Parameters
    ----------
    image_id : str
        Id of the image.
    collection : str or None
        Name of its collection, None for the default one.
    rendered, viewer : str or None
        Addresses in the archive and of the viewer, see `cbir.external_links.external_links`.
    """
    address, query = f"/v1/images/{quote(image_id)}", f"?collection={quote(collection)}" if collection else ""
    return Links(
        thumbnail=f"{address}/thumbnail{query}", image=f"{address}{query}", rendered=rendered, viewer=viewer
    )


def links_of_hit(hit: Hit, collection: str | None) -> Links:
    """Return the links of `hit` in the collection that the client named, None for the default one."""
    return image_links(hit.image_id, collection, rendered=hit.links.rendered, viewer=hit.links.viewer)


def links_of_record(settings: Settings, record: Record, collection: str | None) -> Links:
    """Return the links of an image.

    Parameters
    ----------
    settings : Settings
        They name the archive and the viewer.
    record : Record
        Record of the image.
    collection : str or None
        Name of its collection, None for the default one.
    """
    external = external_links(settings, record.study, record.series, record.instance, record.frame)
    return image_links(record.image_id, collection, **external)
