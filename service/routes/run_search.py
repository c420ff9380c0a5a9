"""Searches of requests: decode, describe and search, each stage within its limits; counted and logged."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from flask import request

from cbir.descriptors.descriptor import QueryImage
from cbir.errors import InvalidInput
from cbir.ingest.decoder_tasks import QueryViews, ViewSides, describe_choice
from cbir.search import Answer, Request, Searcher, Stopwatch
from cbir.search.query_parts import check_profile, query_patient, without_own_study
from cbir.store import Collection
from service.access.audit import log_images
from service.access.patient_identifiers import key_of_identifier, patient_key
from service.collections.app_state import AppState
from service.collections.image_sources import decode_source
from service.collections.stored_pictures import region_of_id, region_of_upload
from service.collections.uploads import describe_task, describe_upload, view_upload
from service.http.problems import TooManyRequests
from service.http.request_params import MAX_SIDE, UPLOAD_NAME
from service.http.search_parameters import ByImage, SearchBody
from service.http.timeouts import query_deadline
from service.routes import metrics_routes
from service.routes.search_hooks import HookedSearch, hooked_search
from service.routes.search_includes import (
    BEFORE,
    CARDS,
    PIXELS,
    RENDERING,
    VECTOR,
    add_before,
    add_cards,
    add_query,
    check_include,
    query_images,
    shown_hits,
)

MAX_PICTURE = 1024  # pixels of a side


def search_by_id(state: AppState, params: SearchBody) -> Answer:
    """Search with images of the collection, vectors or a text, as `params` say; the request is admitted."""
    check_include(params, uploaded=False)
    searcher = state.searcher(params.collection)
    patient = patient_key(searcher.collection, params.exclude_patient)
    search = hooked_search(state, searcher, params, params.to_request(state.settings, patient))
    search_request = search.request
    _check_query(params)
    check_profile(params.profile, params.vector, searcher.collection.profile)
    region = region_of_id(state, searcher.collection, params) if params.anywhere else None
    part = None if region else _decode_region(state, searcher, params)
    if (part or region) and params.same_patient:  # the file may not name the patient, as a JPEG does not
        record = searcher.collection.record(params.image_id or "")
        search_request.of_patient = query_patient(searcher.collection, [], [record])
    if part or region:
        record = searcher.collection.record(params.image_id or "")
        search_request = without_own_study(search_request, [], [record])
    with state.concurrency.slot(), query_deadline(state.settings.query_seconds) as deadline:
        if region:
            answer = searcher.by_region(region, search_request, deadline)
        elif params.text is not None:
            answer = searcher.by_text(params.text, search_request, deadline)
        else:
            files = [part] if part else query_images(searcher, params)
            queries = search.described(files) if files else []
            if not part:
                ids = [*([params.image_id] if params.image_id else []), *params.examples]
                search_request = search_request.model_copy(update={"examples": ids})
            vectors = None if params.origin else params.vector
            answer = _search(searcher, search, queries, search_request, deadline, vectors)
    answer = answer if region else search.completed(answer)
    return _complete(answer, search, [params.image_id])


def search_by_upload(state: AppState, files: list[bytes], params: ByImage) -> Answer:
    """Search with uploaded files, which are one query; the request is admitted.

    Parameters
    ----------
    state : AppState
    files : list of bytes
        Contents of the files.
    params : ByImage
        Parameters of the search, and part of each file.
    """
    check_include(params, uploaded=not params.anywhere)
    searcher = state.searcher(params.collection)
    patient = patient_key(searcher.collection, params.exclude_patient)
    search = hooked_search(state, searcher, params, params.to_request(state.settings, patient), files)
    search_request = search.request
    if params.anywhere:
        region = region_of_upload(state, searcher.collection, files, params)
        if params.same_patient:
            _patient_of(searcher.collection, region.image)
            search_request.of_patient = query_patient(searcher.collection, [region.image], [])
        with state.concurrency.slot(), query_deadline(state.settings.query_seconds) as deadline:
            answer = searcher.by_region(region, search_request, deadline)
        return _complete(answer, search, [])
    names = [f"image {number} of {len(files)}" for number in range(1, len(files) + 1)]
    views = [
        _view(
            state,
            searcher.collection,
            data,
            params,
            name if len(files) > 1 else UPLOAD_NAME,
            name == names[0],
        )
        for data, name in zip(files, names, strict=True)
    ]
    queries = [each.query for each in views]
    if params.same_patient:
        _patient_of(searcher.collection, queries[0])
    with state.concurrency.slot(), query_deadline(state.settings.query_seconds) as deadline:
        queries = search.described(queries)
        if {BEFORE, VECTOR} & {*params.include}:  # a network runs once
            descriptor = searcher.collection.profile.load_descriptor(state.settings.device)
            queries = [query.described(descriptor) for query in queries]
        answer = _search(searcher, search, queries, search_request, deadline)
    answer = search.completed(answer)
    add_query(answer, searcher.collection, queries if VECTOR in params.include else [], views[0])
    if CARDS in params.include:
        answer.query.patient = _known_patient(searcher.collection, queries[0], answer)
    return _complete(answer, search, [])


def _known_patient(collection: Collection, image: QueryImage, answer: Answer) -> str | None:
    """Return the key of a file's patient if a result is of that patient and the limit of identifiers allows."""
    try:
        key = _patient_of(collection, image)
    except TooManyRequests:  # the search itself needs no patient
        return None
    return key if any(hit.patient == key for hit in answer.results) else None


def _search(
    searcher: Searcher,
    search: HookedSearch,
    queries: list[QueryImage],
    search_request: Request,
    deadline: Stopwatch,
    vectors: Any = None,
) -> Answer:
    """Search with images, vectors and the examples of the request, also without re-ranking if that was asked for."""
    answer = searcher.by_examples(queries, search_request, deadline, vectors)
    if BEFORE in search.params.include and answer.results:

        def search_again(request: Request) -> Answer:
            return searcher.by_examples(queries, request, Stopwatch(), vectors)

        add_before(answer, search_request, search.state.settings, search_again)
    return answer


def _patient_of(collection: Collection, image: QueryImage) -> str | None:
    """Return the key of a file's patient, None without one; it is logged, and limited as identifiers are."""
    return key_of_identifier(collection, image.patient_id) if image.patient_id.strip() else None


def _check_query(params: SearchBody) -> None:
    """Raise InvalidInput for parameters that do not go together."""
    if params.region and not params.image_id:
        raise InvalidInput("region: needs image_id, the image it is a region of")
    if params.origin and params.vector is None:
        raise InvalidInput("origin: says what `vector` was computed from; send that too")
    if params.text is not None:
        if "text" in request.args:
            raise InvalidInput("text: send it in the JSON; addresses are written to logs")
        if params.image_id or params.vector:
            raise InvalidInput("text, image_id, vector: search with one of them")


def _decode_region(state: AppState, searcher: Searcher, params: SearchBody) -> QueryImage | None:
    """Return the region that the request names, None for none."""
    if not (params.image_id and params.region):
        return None
    if searcher.collection.profile.volume_grid:
        raise InvalidInput("region: the collection is of CT series, which have no regions; omit it")
    record = searcher.collection.record(params.image_id)
    describe = partial(describe_choice, task=describe_task(state.decoders, searcher.collection))
    return decode_source(state.decoders, searcher.collection, record, describe, params.region)


def _view(
    state: AppState, collection: Collection, data: bytes, params: ByImage, name: str, shown: bool
) -> QueryViews:
    """Describe an upload; a series wholly, since the volumes of all files of a request would take much memory.

    Parameters
    ----------
    state : AppState
    collection : Collection
    data : bytes
        The file.
    params : ByImage
        Its part, and what the answer is to have of it.
    name : str
        Name in messages.
    shown : bool
        Whether it is the first file, whose pictures the answer may have.
    """
    if shown and {RENDERING, PIXELS} & {*params.include}:
        sides = ViewSides(
            MAX_PICTURE if RENDERING in params.include else None,
            MAX_SIDE if PIXELS in params.include else None,
        )
        views = view_upload(state.decoders, collection, data, params, sides, name)
    else:
        views = QueryViews(describe_upload(state.decoders, collection, data, params, name=name))
    if collection.profile.volume_grid is None:
        return views
    descriptor = collection.profile.load_descriptor(state.settings.device)
    with state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        return replace(views, query=views.query.described(descriptor))


def _complete(answer: Answer, search: HookedSearch, query_ids: Iterable[str | None]) -> Answer:
    """Add cards and the collection's name in links, count and log an answer.

    Parameters
    ----------
    answer : Answer
    search : HookedSearch
        The search that it is the answer to.
    query_ids : iterable of str or None
        Images of the collection that were searched with.
    """
    params, hits = search.params, shown_hits(answer)
    if CARDS in params.include:
        add_cards(answer, search.searcher.collection, search.state.settings)
    metrics_routes.observe_stages(answer.timings_ms)
    metrics_routes.note_method(answer.rerank.method)
    if params.collection:
        for hit in hits:
            hit.links = hit.links.in_collection(params.collection)
    asked: list[str | None] = [image_id for image_id in query_ids if image_id]
    shown = dict.fromkeys(hit.image_id for hit in hits)
    log_images([*(asked or [answer.query.image_id]), *params.examples, *shown])
    return answer
