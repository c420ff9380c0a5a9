"""Addresses of an image on the service, in the archive and in the viewer."""

from typing import TYPE_CHECKING
from urllib.parse import quote

from pydantic import BaseModel, Field

from cbir.search import example_values as example
from cbir.settings import Settings
from cbir.store.external_links import external_links

if TYPE_CHECKING:
    from cbir.store import Record


class Links(BaseModel):
    """Addresses of an image: on the service, in the archive, and in the viewer."""

    thumbnail: str = Field(
        description="Address of the thumbnail on the service.",
        examples=[f"/v1/images/{example.IMAGE_ID}/thumbnail"],
    )
    image: str = Field(
        description="Address of the image's record on the service.",
        examples=[f"/v1/images/{example.IMAGE_ID}"],
    )
    rendered: str | None = Field(
        default=None,
        description="Address of the rendered image in the archive; null unless the settings name an archive.",
        examples=[None],
    )
    viewer: str | None = Field(
        default=None,
        description="Address of the image in the viewer; null unless the settings name a viewer.",
        examples=[None],
    )

    def in_collection(self, name: str | None) -> "Links":
        """Return the links with the collection `name`; None for the default one."""
        if not name:
            return self
        start = f"/v1/collections/{quote(name, safe='')}"
        paths = {each: start + getattr(self, each).removeprefix("/v1") for each in ("thumbnail", "image")}
        return self.model_copy(update=paths)


def image_links(image_id: str, **external: str | None) -> Links:
    """Return the links of an image; `external` as `cbir.store.external_links.external_links` returns them."""
    address = f"/v1/images/{quote(image_id)}"
    return Links(thumbnail=f"{address}/thumbnail", image=address, **external)


def record_links(settings: Settings, record: "Record") -> Links:
    """Return the links of the image of `record`; `settings` name the archive and the viewer."""
    if record.format == "nifti":  # its UIDs are our own
        return image_links(record.image_id)
    external = external_links(settings, record.study, record.series, record.instance, record.frame)
    return image_links(record.image_id, **external)
