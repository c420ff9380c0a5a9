"""Client methods for searching and grading."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from cbir.client import messages
from cbir.client.connection import (
    DecodeOptions,
    ImageData,
    ServiceConnection,
    Window,
    assignments,
    decode_form,
    multipart,
    without_none,
)
from cbir.errors import InvalidInput
from cbir.search import Answer

if TYPE_CHECKING:
    from cbir.images import Region


class SearchMethods(ServiceConnection):
    """Mixin with the methods of `cbir.client.Client` that take an example image."""

    def search(
        self,
        query: str | ImageData | Sequence[ImageData] | None = None,
        *,
        examples: Sequence[str] = (),
        feedback: Mapping[str, float] | None = None,
        k: int | None = None,
        rerank: str | None = None,
        parameters: Mapping[str, float | str] | None = None,
        where: Sequence[str] = (),
        exclude_patient: str | None = None,
        frame: int | None = None,
        region: "Region | None" = None,
        window: Window | None = None,
        text: str | None = None,
    ) -> Answer:
        """Search for images similar to one or several examples, or by text.

        Parameters
        ----------
        query : str, Path, bytes or sequence, optional
            Image id, file, content of a file, or several files; None if all examples are in the collection. In a
            collection of CT series a file is a ZIP archive of one series, or a NIfTI volume.
        examples : sequence of str
            Ids of further example images; examples are not among the results.
        feedback : mapping of str to float, optional
            Relevance from -1 to 1 by image id, for relevance feedback.
        k : int, optional
            Number of results.
        rerank : str, optional
            Re-ranking method.
        parameters : mapping of str to float or str, optional
            Parameters of the method that differ from its defaults, such as {"P": 9}; `rerankers` lists them.
        where : sequence of str
            Label conditions, for instance "modality=CT".
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

        Raises
        ------
        InvalidInput
            If frame or window are given for an image id, which is searched with as it was indexed, or text together
            with a file.
        """
        fields = without_none(
            k=k,
            rerank=rerank,
            exclude_patient=exclude_patient,
            where=list(where) or None,
            examples=list(examples) or None,
        )
        judgements = [
            {"image_id": image_id, "relevance": relevance} for image_id, relevance in (feedback or {}).items()
        ]
        if isinstance(query, str) or query is None:
            if frame is not None or window is not None:
                raise InvalidInput("frame, window: only of a file; an image of the collection has its own")
            body = fields | without_none(
                image_id=query,
                text=text,
                region=region,
                feedback=judgements or None,
                parameters=dict(parameters) if parameters else None,
            )
            return self._fetch(Answer, "POST", "/v1/search", json=body)
        if text is not None:
            raise InvalidInput("text: search with it or with a file")
        if judgements:
            fields["feedback"] = json.dumps(judgements)
        form = fields | decode_form(frame=frame, region=region, window=window)
        form |= without_none(parameters=assignments(parameters))
        return self._fetch(Answer, "POST", "/v1/search", files=multipart(query), data=form)

    def rerankers(self) -> messages.RerankerList:
        """List the re-rankers with their parameters, defaults and bounds."""
        url = "/v1/rerankers"
        return messages.RerankerList.model_validate_json(
            self._request("GET", url, with_collection=False).content
        )

    def render(self, query: ImageData, **options: Unpack[DecodeOptions]) -> bytes:
        """Return the image in a file, or in its content, as PNG, decoded as for a search with `DecodeOptions`."""
        form = decode_form(**options)
        return self._request(
            "POST", "/v1/render", with_collection=False, files=multipart(query), data=form
        ).content

    def grade(
        self,
        query: str | ImageData,
        *,
        grade_column: str | None = None,
        exclude_patient: str | None = None,
        **options: Unpack[DecodeOptions],
    ) -> messages.Grade:
        """Grade an image by the graded images of the collection.

        Parameters
        ----------
        query : str, Path or bytes
            Image id, file, or content of a file.
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
        if not isinstance(query, str):
            return self._fetch(
                messages.Grade, "POST", "/v1/grade", files=multipart(query), data=column | form
            )
        if form:
            raise InvalidInput(f"{next(iter(form))}: only of a file; an image of the collection has its own")
        return self._fetch(messages.Grade, "POST", "/v1/grade", json={"image_id": query} | column)
