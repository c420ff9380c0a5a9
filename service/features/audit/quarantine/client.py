"""Client methods for images that the intake check keeps out."""

from urllib.parse import quote

from service.client.connection import ServiceConnection
from service.features.audit.quarantine.messages import QuarantinePage


class QuarantineMethods(ServiceConnection):
    """Mixin with the methods of `service.client.Client` for quarantined images."""

    def quarantine(self, *, limit: int = 100, cursor: str | None = None) -> QuarantinePage:
        """Return a page of the quarantined images; `cursor` is the field `next` of the page before."""
        params = {"limit": str(limit)} | ({"cursor": cursor} if cursor else {})
        return self._fetch(QuarantinePage, "GET", "/v1/quarantine", params=params)

    def quarantined_thumbnail(self, image_id: str) -> bytes:
        """Return the thumbnail of a quarantined image, JPEG."""
        return self._request("GET", f"{_path(image_id)}/thumbnail").content

    def release(self, image_id: str) -> None:
        """Add a quarantined image to the collection."""
        self._request("POST", f"{_path(image_id)}/release")

    def refuse(self, image_id: str) -> None:
        """Delete a quarantined image permanently."""
        self._request("DELETE", _path(image_id))


def _path(image_id: str) -> str:
    return f"/v1/quarantine/{quote(image_id, safe='')}"
