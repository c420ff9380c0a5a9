"""Client method that explains answers."""

from collections.abc import Sequence
from typing import Any, Unpack

from cbir.errors import InvalidInput
from service.client.connection import DecodeOptions, ServiceConnection, decode_form, id_to_send, multipart
from service.features.explain.messages import Explanations


class ExplainMethods(ServiceConnection):
    """Mixin with the method of `service.client.Client` that explains answers."""

    def explain(self, query: Any, image_ids: Sequence[str], **options: Unpack[DecodeOptions]) -> Explanations:
        """Explain why images are similar to a query.

        Parameters
        ----------
        query : str, path-like, bytes, array or Image
            What was searched with: a file, its content, samples, or an image id.
        image_ids : sequence of str
            Ids of up to 20 results.
        **options
            frame, region, window: as of the search; only region for an image id.

        Raises
        ------
        InvalidInput
            If frame or window are given for an image id.
        """
        form, image_id = decode_form(**options), id_to_send(query)
        fields: dict[str, Any] = {"answers": list(image_ids)} | form
        if image_id is None:
            return self._fetch(Explanations, "POST", "/v1/explain", files=multipart(query), data=fields)
        if "frame" in form or "window" in form:
            raise InvalidInput("frame, window: only of a file; an image of the collection has its own")
        return self._fetch(Explanations, "POST", "/v1/explain", json={"image_id": image_id} | fields)
