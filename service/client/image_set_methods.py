"""Client methods for many images at once."""

from collections.abc import Mapping, Sequence

from cbir.search.search_options import list_conditions
from service.client.connection import ServiceConnection
from service.client.image_set_messages import DeletedImages, LabelledCount
from service.client.messages import ImagePage, ImageRecord


class ImageSetMethods(ServiceConnection):
    """Mixin with the methods of `service.client.Client` that show, label, delete and export many images."""

    def label_images(self, ids: Sequence[str], labels: Mapping[str, str | None]) -> int:
        """Set labels of up to 10,000 images; None removes a label. Return the number of images."""
        body = {"ids": list(ids), "labels": dict(labels)}
        return self._fetch(LabelledCount, "PATCH", "/v1/images", json=body).labelled

    def image_records(self, ids: Sequence[str]) -> list[ImageRecord]:
        """Return the records of up to 1,000 images, in the order of `ids`; those of no image are left out."""
        return self._fetch(ImagePage, "POST", "/v1/images/records", json={"ids": list(ids)}).items

    def delete_images(self, ids: Sequence[str]) -> list[str]:
        """Delete up to 10,000 images permanently; return the ids of those that were in the collection."""
        return self._fetch(DeletedImages, "POST", "/v1/images/delete", json={"ids": list(ids)}).deleted

    def export_images(
        self, where: str | Sequence[str] = (), *, ids: Sequence[str] | None = None, sort: str = "oldest"
    ) -> str:
        """Return images with their labels as a csv table.

        Parameters
        ----------
        where : str or sequence of str
            Label conditions; all must hold.
        ids : sequence of str, optional
            Ids of up to 10,000 images, in place of `where`.
        sort : str
            "oldest", "newest", "label:KEY" or "-label:KEY".
        """
        body = {"where": list_conditions(where), "sort": sort} | (
            {"ids": list(ids)} if ids is not None else {}
        )
        return self._request("POST", "/v1/images/export", json=body).text
