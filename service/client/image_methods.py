"""Client methods for the images of a collection, one or many at once."""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from cbir.store.records.filter_conditions import LabelConditions, write_conditions
from service.client import messages
from service.client.connection import (
    ImageData,
    Region,
    ServiceConnection,
    decode_form,
    image_path,
    multipart,
    read_files,
)
from service.client.image_messages import (
    DeletedImages,
    DicomGroupPage,
    ImageVectors,
    LabelFacet,
    LabelFacets,
    LabelledCount,
    LabelValuePage,
)
from service.client.messages import ImagePage, ImageRecord


class ImageMethods(ServiceConnection):
    """Mixin with the methods of `service.client.Client` that list, add, change and delete images."""

    def images(
        self,
        where: LabelConditions = (),
        *,
        limit: int = 100,
        sort: str | None = None,
        study: str = "",
        series: str = "",
        cards: bool = False,
    ) -> Iterator[messages.ImageRecord]:
        """Iterate over the images that meet all conditions, `limit` per request.

        Parameters
        ----------
        where : str, Condition or sequence of them
            Label conditions; all must hold.
        limit : int
            Number of images per request.
        sort : str, optional
            "oldest" or "newest" first, "label:KEY" by the values of a label, "-label:KEY" the other way round,
            "slices" by the place of slices in their series. By default "slices" for a study or series, else "oldest".
        study, series : str
            UIDs of a study, or of a series and its study, that the images must be in.
        cards : bool
            Give each record a card: finding, age, place in its series and the like.
        """
        params = {
            "limit": limit,
            "cards": json.dumps(cards),
            "where": write_conditions(where),
            "study": study,
            "series": series,
        } | ({"sort": sort} if sort else {})
        yield from self._all_items(messages.ImagePage, "/v1/images", params)

    def image_page(
        self, where: LabelConditions = (), *, limit: int = 100, cursor: str | None = None
    ) -> messages.ImagePage:
        """Return one page of the images.

        Parameters
        ----------
        where : str, Condition or sequence of them
            Label conditions; all must hold.
        limit : int
            Maximum number of images.
        cursor : str, optional
            `next` of the previous page.
        """
        params = {"limit": limit, "where": write_conditions(where)} | ({"cursor": cursor} if cursor else {})
        return self._fetch(messages.ImagePage, "GET", "/v1/images", params=params)

    def series(
        self,
        level: str = "series",
        where: LabelConditions = (),
        *,
        limit: int = 100,
        cursor: str | None = None,
    ) -> DicomGroupPage:
        """Return a page of the DICOM series or studies, with their numbers of images.

        Parameters
        ----------
        level : str
            "series" or "study".
        where : str, Condition or sequence of them
            Label conditions on the images that count; all must hold.
        limit : int
            Maximum number of series or studies.
        cursor : str, optional
            `next` of the previous page.
        """
        params = {"level": level, "limit": limit, "where": write_conditions(where)}
        params |= {"cursor": cursor} if cursor else {}
        return self._fetch(DicomGroupPage, "GET", "/v1/series", params=params)

    def image(self, image_id: str, *, cards: bool = False) -> messages.ImageRecord:
        """Return the record of an image, with its card if `cards`."""
        params = {"cards": json.dumps(cards)}
        return self._fetch(messages.ImageRecord, "GET", image_path(image_id), params=params)

    def vector(self, image_id: str, *, raw: bool = False) -> ImageVectors:
        """Return the vector of an image: the values of the descriptor if `raw`, else normalised ones.

        It needs a token with the scope `originals`.
        """
        params = {"raw": json.dumps(raw)}
        return self._fetch(ImageVectors, "GET", f"{image_path(image_id)}/vector", params=params)

    def vectors(self, ids: Sequence[str], *, raw: bool = False) -> ImageVectors:
        """Return the vectors of up to 100 images, in the order of `ids`; `raw` and scope as of `vector`."""
        return self._fetch(ImageVectors, "POST", "/v1/vectors", json={"ids": list(ids), "raw": raw})

    def labels(self, where: LabelConditions = ()) -> list[LabelFacet]:
        """Return the label keys of the images that meet all conditions `where`, with counts of images and values."""
        return self._fetch(LabelFacets, "GET", "/v1/labels", params={"where": write_conditions(where)}).items

    def label_values(
        self, key: str, where: LabelConditions = (), *, limit: int = 100, offset: int = 0
    ) -> LabelValuePage:
        """Return the most frequent values of a label with their numbers of images.

        Parameters
        ----------
        key : str
            Key of the label.
        where : str, Condition or sequence of them
            Label conditions on the images that count; all must hold.
        limit : int
            Largest number of values in `items`.
        offset : int
            Number of more frequent values to leave out.
        """
        params = {"where": write_conditions(where), "limit": limit, "cursor": str(offset)}
        return self._fetch(LabelValuePage, "GET", f"/v1/labels/{quote(key, safe='')}", params=params)

    def add(
        self,
        images: ImageData | Sequence[ImageData],
        labels: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
        *,
        duplicates: bool = False,
        restore: bool = False,
        idempotency_key: str | None = None,
    ) -> messages.AddedImages:
        """Add images; they are on disk when this returns.

        Parameters
        ----------
        images : Path, bytes or sequence
            Files or their content.
        labels : mapping or sequence of mappings, optional
            Labels of all files, or of each file.
        duplicates : bool
            Add images that are in the collection already.
        restore : bool
            Add images that were deleted earlier.
        idempotency_key : str, optional
            Key with which the request can be repeated safely.
        """
        form = {"duplicates": json.dumps(duplicates), "restore": json.dumps(restore)}
        if labels:
            form["labels"] = json.dumps(
                dict(labels) if isinstance(labels, Mapping) else [dict(of_file) for of_file in labels]
            )
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return self._fetch(
            messages.AddedImages, "POST", "/v1/images", files=multipart(images), data=form, headers=headers
        )

    def set_labels(
        self, image_id: str, labels: Mapping[str, str | None], *, if_match: str | None = None
    ) -> messages.ImageRecord:
        """Set labels of an image.

        Parameters
        ----------
        image_id : str
            Id of the image.
        labels : mapping
            New values; None removes a label.
        if_match : str, optional
            `etag` of the state that is changed; the request fails if the image has changed since.
        """
        headers = {"If-Match": if_match} if if_match else {}
        body = {"labels": dict(labels)}
        return self._fetch(messages.ImageRecord, "PATCH", image_path(image_id), json=body, headers=headers)

    def etag(self, image_id: str) -> str:
        """Return the ETag of an image's current state, for `set_labels`."""
        etag: str = self._request("GET", image_path(image_id)).headers["ETag"]
        return etag

    def delete(self, image_id: str) -> None:
        """Delete an image permanently."""
        self._request("DELETE", image_path(image_id))

    def picture(
        self, image_id: str, *, region: Region | None = None, window: tuple[float, float] | None = None
    ) -> bytes:
        """Return a PNG with a longer side of at most 1024 pixels, or the thumbnail if nothing larger is stored.

        `region` selects a part of the image: (x, y, width, height) in its pixels. `window` is (center, width) of a
        grey DICOM image.
        """
        params = decode_form(region=region, window=window)
        return self._request("GET", f"{image_path(image_id)}/picture", params=params).content

    def original(self, image_id: str) -> bytes:
        """Return the original file of an image, if it is stored."""
        return self._request("GET", f"{image_path(image_id)}/original").content


class ImageSetMethods(ServiceConnection):
    """Mixin with the methods of `service.client.Client` that show, label, delete and export many images."""

    def label_images(self, ids: Sequence[str], labels: Mapping[str, str | None]) -> int:
        """Set labels of up to 10,000 images; None removes a label. Return the number of images."""
        body = {"ids": list(ids), "labels": dict(labels)}
        return self._fetch(LabelledCount, "PATCH", "/v1/images", json=body).labelled

    def image_records(self, ids: Sequence[str], *, cards: bool = False) -> list[ImageRecord]:
        """Return the records of up to 1,000 images, in the order of `ids`; those of no image are left out.

        They have their cards if `cards`.
        """
        options = {"json": {"ids": list(ids)}, "params": {"cards": json.dumps(cards)}}
        return self._fetch(ImagePage, "POST", "/v1/images/records", **options).items

    def delete_images(self, ids: Sequence[str]) -> list[str]:
        """Delete up to 10,000 images permanently; return the ids of those that were in the collection."""
        return self._fetch(DeletedImages, "POST", "/v1/images/delete", json={"ids": list(ids)}).deleted

    def export_images(
        self, where: LabelConditions = (), *, ids: Sequence[str] | None = None, sort: str = "oldest"
    ) -> str:
        """Return images with their labels as a csv table.

        Parameters
        ----------
        where : str, Condition or sequence of them
            Label conditions; all must hold.
        ids : sequence of str, optional
            Ids of up to 10,000 images, in place of `where`.
        sort : str
            "oldest", "newest", "label:KEY" or "-label:KEY".
        """
        body = {"where": write_conditions(where), "sort": sort} | (
            {"ids": list(ids)} if ids is not None else {}
        )
        return self._request("POST", "/v1/images/export", json=body).text


class DicomwebMethods(ServiceConnection):
    """Mixin with the methods of `service.client.Client` that send DICOM files."""

    def store_instances(self, instances: ImageData | Sequence[ImageData]) -> dict[str, Any]:
        """Add DICOM files by STOW-RS; return the store instances response in the DICOM JSON model (PS3.18, I.2)."""
        return self._store("/dicomweb/studies", instances)

    def store_study_instances(self, study: str, instances: ImageData | Sequence[ImageData]) -> dict[str, Any]:
        """Add DICOM files of the study with this UID, as `store_instances` does; those of others are refused."""
        return self._store(f"/dicomweb/studies/{quote(study, safe='')}", instances)

    def _store(self, path: str, instances: ImageData | Sequence[ImageData]) -> dict[str, Any]:
        boundary = secrets.token_hex(16)
        head = f"--{boundary}\r\nContent-Type: application/dicom\r\n\r\n".encode()
        content = b"".join(head + data + b"\r\n" for data in read_files(instances))
        response = self._request(
            "POST",
            path,
            content=content + f"--{boundary}--\r\n".encode(),
            headers={"Content-Type": f'multipart/related; type="application/dicom"; boundary={boundary}'},
        )
        dataset: dict[str, Any] = response.json()
        return dataset
