"""Client methods for searching and grading."""

from collections.abc import Sequence
from typing import Any, Unpack

from cbir.errors import CbirError, InvalidInput
from cbir.search.answer import Hits
from cbir.search.search_options import SearchOptions, check_names, check_queries, query_and_options
from service.client import messages
from service.client.connection import (
    JSON,
    DecodeOptions,
    ServiceConnection,
    ServiceError,
    decode_form,
    id_to_send,
    image_path,
    multipart,
    without_none,
    write_json,
)
from service.client.prepared_search import PreparedSearch, prepare_search, split_batch

# Of problems of a query, not of the request: no such image or file, too large, unreadable, too slow
QUERY_STATUSES = (404, 410, 413, 415, 422, 504)


class SearchMethods(ServiceConnection):
    """Mixin with the methods of `service.client.Client` that take an example image."""

    def search(self, query: Any = None, **options: Unpack[SearchOptions]) -> Hits:
        """Search for images similar to one or several examples, or by text or vector.

        Parameters
        ----------
        query : str, path-like, bytes, array or sequence of them, optional
            File, content of a file, samples (`cbir.images.from_array`), or image id; "id:ID" where a file has the
            name of an id. Several are one query. None if all examples are in the collection.
        **options
            k, where, rerank, group_by, vector, text, ...: see `cbir.SearchOptions`.

        Returns
        -------
        Hits
            As of the Python API; pictures of a notebook are the service's thumbnails.

        Raises
        ------
        InvalidInput
            If frame or window are given for an image id, which is searched with as it was indexed, or text or vector
            together with a file.
        NotFound
            For a text that is neither a file nor has the form of an image id; it is not sent.
        """
        return self._search(prepare_search(query, options))

    def search_batch(
        self, queries: Sequence[Any], **options: Unpack[SearchOptions]
    ) -> list[Hits | CbirError]:
        """Search with each of several queries by itself, in as few requests as there can be.

        Parameters
        ----------
        queries : sequence
            What `search` takes as query; or mappings of "query" and of options that the query has in place of the
            common ones, for example {"vector": values, "k": 5}.
        **options
            See `cbir.SearchOptions`.

        Returns
        -------
        list of Hits or CbirError
            In the order of the queries; an error, such as ServiceError, in place of the hits of a query that cannot
            be searched with.

        Raises
        ------
        ServiceError
            If the service refuses a request as a whole.
        """
        check_queries(queries)
        check_names(options)
        outcomes: dict[int, Hits | CbirError] = {}
        prepared = list[tuple[int, PreparedSearch]]()
        for number, query in enumerate(queries):
            try:
                prepared.append((number, prepare_search(*query_and_options(query, options))))
            except CbirError as error:
                outcomes[number] = error
        for part in split_batch(prepared):
            numbers, searches = [number for number, _ in part], [search for _, search in part]
            outcomes |= zip(numbers, self._search_together(searches), strict=True)
        return [outcomes[number] for number in range(len(queries))]

    def _search(self, prepared: PreparedSearch) -> Hits:
        return self._fetch(
            Hits, "POST", "/v1/search", **_content(prepared.files, prepared.fields)
        ).with_pictures(self.thumbnail)

    def _search_together(self, searches: Sequence[PreparedSearch]) -> list[Hits | CbirError]:
        if len(searches) == 1:
            try:
                return [self._search(searches[0])]
            except ServiceError as error:
                if error.problem.status not in QUERY_STATUSES:
                    raise
                return [error]
        files = [data for search in searches for data in search.files]
        fields = searches[0].fields if files else {"queries": [search.fields for search in searches]}
        answers = self._fetch(messages.BatchAnswers, "POST", "/v1/search/batch", **_content(files, fields))
        return [
            ServiceError(item.problem) if item.problem else item.answer.with_pictures(self.thumbnail)  # type: ignore[union-attr]  # one of them
            for item in answers.items
        ]

    def thumbnail(self, image_id: str) -> bytes:
        """Return a JPEG with a longer side of at most 256 pixels."""
        return self._request("GET", f"{image_path(image_id)}/thumbnail").content

    def rerankers(self) -> messages.RerankerList:
        """List the re-rankers with their parameters, defaults and bounds."""
        return self._fetch(messages.RerankerList, "GET", "/v1/rerankers", with_collection=False)

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


def _content(files: list[bytes], fields: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a request: files with a form, or JSON."""
    if files:
        return {"files": multipart(files), "data": fields}
    return {"content": write_json(fields), "headers": JSON}
