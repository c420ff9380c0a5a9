"""Client methods for the audit of a collection, and for images that the intake check keeps out."""

from collections.abc import Sequence
from urllib.parse import quote

from service.client.collection_messages import JobInfo
from service.client.connection import ServiceConnection
from service.features.audit.messages import AuditState, QuarantinePage


class AuditMethods(ServiceConnection):
    """Mixin with the methods of `service.client.Client` for the audit of a collection."""

    def audit(self) -> AuditState:
        """Return the latest audit of the collection; `state` says whether there is one, or a job makes one."""
        return self._fetch(AuditState, "GET", "/v1/audit")

    def start_audit(
        self,
        label: str | None = None,
        split: str | None = None,
        source: str | None = None,
        groups: Sequence[str] = (),
    ) -> JobInfo:
        """Start an audit of the collection and return its job.

        Parameters
        ----------
        label : str, optional
            Label whose errors are looked for.
        split : str, optional
            Label that names the part of a split, such as train and test.
        source : str, optional
            Label that names where an image came from; `source`, or the folder of the file, by default.
        groups : sequence of str
            Labels whose values are compared in retrieval quality, besides sex, age and scanner.
        """
        body = {"label": label, "split": split, "source": source, "groups": list(groups)}
        return self._fetch(JobInfo, "POST", "/v1/audit", json=body)


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
