"""Searches as requests of the API: a JSON body, or files with a form."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from cbir.errors import InvalidInput
from cbir.search.search_options import (
    MAX_BATCH,
    REQUEST_VALUES,
    SearchOptions,
    check_names,
    list_examples,
    list_judgements,
)
from cbir.store.records.filter_conditions import write_conditions
from service.client.connection import (
    assignments,
    decode_form,
    id_to_send,
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
