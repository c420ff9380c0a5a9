"""Client methods for searching: a search, or several, as requests of the API."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

from cbir.errors import CbirError, InvalidInput
from cbir.search.answer import Hits
from cbir.search.picture_facts import PixelFacts
from cbir.search.search_options import (
    MAX_BATCH,
    REQUEST_VALUES,
    SearchOptions,
    check_names,
    check_queries,
    list_examples,
    list_judgements,
    query_and_options,
)
from cbir.store.records.filter_conditions import write_conditions
from service.client import messages
from service.client.connection import (
    JSON,
    DecodeOptions,
    ServiceConnection,
    ServiceError,
    assignments,
    decode_form,
    id_to_send,
    image_path,
    multipart,
    read_files,
    without_none,
    write_json,
)

JSON_BYTES = 900_000  # of the queries of a request; the service takes 1 MiB
FILE_BYTES = 32 * 2**20  # of its files


@dataclass(frozen=True)
class PreparedSearch:
    """Search as it is sent. fields: of the JSON body, or of the form if there are `files`."""

    fields: dict[str, Any]
    files: list[bytes] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Equal for searches that one request can do: those without files, or with a file and the same form."""
        return json.dumps(self.fields, sort_keys=True) if self.files else ""

    @property
    def size(self) -> int:
        """Bytes of the files, or of the JSON."""
        return sum(map(len, self.files)) if self.files else len(write_json(self.fields))


def prepare_search(query: Any, options: SearchOptions) -> PreparedSearch:
    """Return the request for a search; raises InvalidInput, NotFound and UnreadableImage before anything is sent.

    `query`, `options`: as of `Client.search`.
    """
    check_names(options)
    several = list_examples(query)
    ids = [image_id for example in several if (image_id := id_to_send(example)) is not None]
    files = [example for example in several if id_to_send(example) is None]
    fields = without_none(**{name: options.get(name) for name in REQUEST_VALUES})
    fields |= without_none(where=write_conditions(options.get("where", ())) or None)
    fields |= without_none(
        anywhere=options.get("anywhere") or None, federated=options.get("federated") or None
    )
    fields |= without_none(sites=_texts(options.get("sites", ())) or None)
    fields |= without_none(include=_texts(options.get("include", ())) or None)
    if files:
        return _with_files(ids, files, fields, options)
    search = _with_ids(ids, fields, options)
    write_json(search.fields)  # refuses what JSON cannot hold, so that a batch does not fail by one query
    return search


def _with_files(
    ids: list[str], files: list[Any], fields: dict[str, Any], options: SearchOptions
) -> PreparedSearch:
    for name in ("text", "vector", "profile", "origin"):
        if options.get(name) is not None:
            raise InvalidInput(f"{name}: search with it or with a file")
    judgements = list_judgements(options.get("feedback"))
    form = {name: value if isinstance(value, list | str) else str(value) for name, value in fields.items()}
    part = {"frame": options.get("frame"), "region": options.get("region"), "window": options.get("window")}
    form |= decode_form(**part)  # type: ignore[arg-type]  # of a TypedDict with the same names
    form |= without_none(
        parameters=assignments(options.get("parameters")),
        examples=[*ids, *options.get("examples", ())] or None,
        feedback=write_json(judgements) if judgements else None,
    )
    return PreparedSearch(form, read_files(files))


def _with_ids(ids: list[str], fields: dict[str, Any], options: SearchOptions) -> PreparedSearch:
    if options.get("frame") is not None or options.get("window") is not None:
        raise InvalidInput("frame, window: only of a file; an image of the collection has its own")
    parameters = options.get("parameters")
    vector: Any = options.get("vector")
    if options.get("text") is not None or options.get(
        "anywhere"
    ):  # these searches have no re-ranking to choose
        fields = {name: value for name, value in fields.items() if (name, value) != ("rerank", "none")}
    first = ids[:1] if vector is None else []  # beside a vector, images are examples
    return PreparedSearch(
        fields
        | without_none(
            image_id=first[0] if first else None,
            examples=[*ids[len(first) :], *options.get("examples", ())] or None,
            text=options.get("text"),
            region=options.get("region"),
            profile=options.get("profile"),
            origin=_sent(options.get("origin")),
            vector=vector.tolist() if hasattr(vector, "tolist") else vector,
            feedback=list_judgements(options.get("feedback")) or None,
            parameters=dict(parameters) if parameters else None,
        )
    )


def _texts(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _sent(origin: Any) -> Any:
    """Return what is known of files as JSON holds it; answers have it as models."""
    return [each.model_dump() if hasattr(each, "model_dump") else each for each in origin or ()] or None


def split_batch(searches: Sequence[tuple[int, PreparedSearch]]) -> Iterator[list[tuple[int, PreparedSearch]]]:
    """Yield the searches in lists that one request can do, each with its number.

    A query of several files is a list by itself: in a batch, every file is a query.
    """
    of_kind: dict[str, list[tuple[int, PreparedSearch]]] = {}
    for number, search in searches:
        if len(search.files) > 1:
            yield [(number, search)]
        else:
            of_kind.setdefault(search.kind, []).append((number, search))
    for kind, same in of_kind.items():
        part, size = list[tuple[int, PreparedSearch]](), 0
        for number, search in same:
            if part and (len(part) == MAX_BATCH or size + search.size > (FILE_BYTES if kind else JSON_BYTES)):
                yield part
                part, size = [], 0
            part.append((number, search))
            size += search.size
        yield part


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

    def pixels(
        self, query: Any, *, side: int | None = None, **options: Unpack[DecodeOptions]
    ) -> tuple[bytes, PixelFacts]:
        """Return pixel values, little-endian and row by row, and what they are: their type, HU, spacing and place.

        Parameters
        ----------
        query : str, path-like, bytes or array
            File, content of a file, samples, or image id.
        side : int, optional
            Longest side, from 64 to 2048; larger images are reduced.
        **options
            See `DecodeOptions`; of an image of the collection only `region`.

        Raises
        ------
        ServiceError
            If the file of the image is gone.
        """
        form = {"pixels": "true"} | without_none(side=side) | decode_form(**options)
        image_id = id_to_send(query)
        if image_id is not None:
            response = self._request("GET", f"{image_path(image_id)}/picture", params=form)
        else:
            files = multipart(query)
            response = self._request("POST", "/v1/render", with_collection=False, files=files, data=form)
        return response.content, PixelFacts.model_validate_json(response.headers["Image-Facts"])


def _content(files: list[bytes], fields: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a request: files with a form, or JSON."""
    if files:
        return {"files": multipart(files), "data": fields}
    return {"content": write_json(fields), "headers": JSON}
