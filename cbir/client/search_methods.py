"""Client methods for searching and grading."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from cbir.client import messages
from cbir.client.connection import (
    JSON,
    DecodeOptions,
    Region,
    ServiceConnection,
    Window,
    assignments,
    decode_form,
    id_to_send,
    image_path,
    multipart,
    without_none,
    write_json,
)
from cbir.errors import InvalidInput
from cbir.search.hits import Hits
from cbir.search.query_kinds import list_conditions, list_examples


class SearchMethods(ServiceConnection):
    """Mixin with the methods of `cbir.client.Client` that take an example image."""

    def search(
        self,
        query: Any = None,
        *,
        examples: Sequence[str] = (),
        feedback: Mapping[str, float] | None = None,
        k: int | None = None,
        rerank: str | None = None,
        parameters: Mapping[str, float | str] | None = None,
        where: str | Sequence[str] = (),
        exclude_patient: str | None = None,
        frame: int | None = None,
        region: Region | None = None,
        window: Window | None = None,
        text: str | None = None,
    ) -> Hits:
        """Search for images similar to one or several examples, or by text.

        Parameters
        ----------
        query : str, path-like, bytes, array or sequence of them, optional
            File, content of a file, samples (`cbir.images.from_array`), or image id; "id:ID" where a file has the
            name of an id. Several are one query. None if all examples are in the collection.
        examples : sequence of str
            Ids of further example images; examples are not among the hits.
        feedback : mapping of str to float, optional
            Relevance from -1 to 1 by image id, for relevance feedback.
        k : int, optional
            Number of hits.
        rerank : str, optional
            Re-ranking method.
        parameters : mapping of str to float or str, optional
            Parameters of the method that differ from its defaults, such as {"P": 9}; `rerankers` lists them.
        where : str or sequence of str
            Label conditions, for instance "modality=CT"; all must hold.
        exclude_patient : str, optional
            Key of a patient whose images are left out; with the scope admin also an identifier.
        frame : int, optional
            Frame of a file, from 1.
        region : (int, int, int, int), optional
            Part to search with: x, y, width, height in pixels.
        window : (float, float), optional
            Center and width for a grey DICOM file.
        text : str, optional
            Words to search with instead of examples, in a collection whose encoder has a text tower.

        Returns
        -------
        Hits
            As of the Python API; pictures of a notebook are the service's thumbnails.

        Raises
        ------
        InvalidInput
            If frame or window are given for an image id, which is searched with as it was indexed, or text together
            with a file.
        NotFound
            For a text that is neither a file nor has the form of an image id; it is not sent.
        """
        several = list_examples(query)
        ids = [image_id for example in several if (image_id := id_to_send(example)) is not None]
        files = [example for example in several if id_to_send(example) is None]
        judgements = [
            {"image_id": image_id, "relevance": relevance} for image_id, relevance in (feedback or {}).items()
        ]
        fields = without_none(
            k=k,
            rerank=rerank,
            exclude_patient=exclude_patient,
            where=list_conditions(where) or None,
        )
        if files:
            if text is not None:
                raise InvalidInput("text: search with it or with a file")
            form = fields | decode_form(frame=frame, region=region, window=window)
            form |= without_none(
                k=None if k is None else str(k),
                parameters=assignments(parameters),
                examples=[*ids, *examples] or None,
                feedback=write_json(judgements) if judgements else None,
            )
            hits = self._fetch(Hits, "POST", "/v1/search", files=multipart(files), data=form)
        else:
            if frame is not None or window is not None:
                raise InvalidInput("frame, window: only of a file; an image of the collection has its own")
            body = fields | without_none(
                image_id=ids[0] if ids else None,
                examples=[*ids[1:], *examples] or None,
                text=text,
                region=region,
                feedback=judgements or None,
                parameters=dict(parameters) if parameters else None,
            )
            hits = self._fetch(Hits, "POST", "/v1/search", content=write_json(body), headers=JSON)
        return hits.with_pictures(self.thumbnail)

    def thumbnail(self, image_id: str) -> bytes:
        """Return a JPEG with a longer side of at most 256 pixels."""
        return self._request("GET", f"{image_path(image_id)}/thumbnail").content

    def rerankers(self) -> messages.RerankerList:
        """List the re-rankers with their parameters, defaults and bounds."""
        url = "/v1/rerankers"
        return messages.RerankerList.model_validate_json(
            self._request("GET", url, with_collection=False).content
        )

    def render(self, query: Any, **options: Unpack[DecodeOptions]) -> bytes:
        """Return the image in a file, its content or an array as PNG, decoded with `DecodeOptions`."""
        form = decode_form(**options)
        return self._request(
            "POST", "/v1/render", with_collection=False, files=multipart(query), data=form
        ).content

    def grade(
        self,
        query: Any,
        *,
        grade_column: str | None = None,
        exclude_patient: str | None = None,
        **options: Unpack[DecodeOptions],
    ) -> messages.Grade:
        """Grade an image by the graded images of the collection.

        Parameters
        ----------
        query : str, path-like, bytes or array
            File, content of a file, samples, or image id.
        grade_column : str, optional
            Label with the grades; None for the only one with a fitted ranker.
        exclude_patient : str, optional
            Key of a patient whose images are left out, with the scope admin also an identifier; only for files.
        **options
            See `DecodeOptions`; only for files.

        Raises
        ------
        InvalidInput
            If an option for files is given for an image id.
        """
        form = without_none(exclude_patient=exclude_patient) | decode_form(**options)
        column = without_none(grade_column=grade_column)
        image_id = id_to_send(query)
        if image_id is None:
            return self._fetch(
                messages.Grade, "POST", "/v1/grade", files=multipart(query), data=column | form
            )
        if form:
            raise InvalidInput(f"{next(iter(form))}: only of a file; an image of the collection has its own")
        return self._fetch(messages.Grade, "POST", "/v1/grade", json={"image_id": image_id} | column)
