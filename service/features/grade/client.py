"""Client method that grades images."""

from typing import Any, Unpack

from cbir.errors import InvalidInput
from cbir.learn.grade import Grade
from service.client.connection import (
    DecodeOptions,
    ServiceConnection,
    decode_form,
    id_to_send,
    multipart,
    without_none,
)


class GradeMethods(ServiceConnection):
    """Mixin with the method of `service.client.Client` that grades images."""

    def grade(
        self,
        query: Any,
        *,
        grade_column: str | None = None,
        exclude_patient: str | None = None,
        **options: Unpack[DecodeOptions],
    ) -> Grade:
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
            return self._fetch(Grade, "POST", "/v1/grade", files=multipart(query), data=column | form)
        if form:
            raise InvalidInput(f"{next(iter(form))}: only of a file; an image of the collection has its own")
        return self._fetch(Grade, "POST", "/v1/grade", json={"image_id": image_id} | column)
