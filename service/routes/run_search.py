"""Searches of requests: decode, describe and search, each stage within its limits; counted and logged."""

from collections.abc import Iterable
from functools import partial

from flask import request

from cbir.descriptors.descriptor import QueryImage
from cbir.errors import InvalidInput
from cbir.ingest.decoder_tasks import describe_choice
from cbir.search import Answer, Searcher
from cbir.search.query_parts import check_profile, query_patient
from cbir.store import Collection
from service.access.audit import log_images
from service.access.patient_identifiers import key_of_identifier, patient_key
from service.collections.app_state import AppState
from service.collections.image_sources import decode_source
from service.collections.stored_pictures import region_of_id, region_of_upload
from service.collections.uploads import describe_task, describe_upload
from service.http.request_params import UPLOAD_NAME
from service.http.search_parameters import ByImage, SearchBody, SearchParameters
from service.http.timeouts import query_deadline
from service.routes import metrics_routes
from service.routes.search_hooks import hooked_search


def search_by_id(state: AppState, params: SearchBody) -> Answer:
    """Search with images of the collection, vectors or a text, as `params` say; the request is admitted."""
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
    with state.concurrency.slot(), query_deadline(state.settings.query_seconds) as deadline:
        if region:
            answer = searcher.by_region(region, search_request, deadline)
        elif params.text is not None:
            answer = searcher.by_text(params.text, search_request, deadline)
        elif part:
            queries = search.described([part])
            answer = searcher.by_examples(queries, search_request, deadline, params.vector)
        else:
            ids = [*([params.image_id] if params.image_id else []), *params.examples]
            of_ids = search_request.model_copy(update={"examples": ids})
            answer = searcher.by_examples([], of_ids, deadline, params.vector)
    answer = _complete(answer, params, [params.image_id])
    return answer if region else search.completed(answer)


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
    searcher = state.searcher(params.collection)
    patient = patient_key(searcher.collection, params.exclude_patient)
    search = hooked_search(state, searcher, params, params.to_request(state.settings, patient))
    search_request = search.request
    if params.anywhere:
        region = region_of_upload(state, searcher.collection, files, params)
        if params.same_patient:
            _note_patient(searcher.collection, region.image)
            search_request.of_patient = query_patient(searcher.collection, [region.image], [])
        with state.concurrency.slot(), query_deadline(state.settings.query_seconds) as deadline:
            return _complete(searcher.by_region(region, search_request, deadline), params, [])
    names = [f"image {number} of {len(files)}" for number in range(1, len(files) + 1)]
    queries = [
        _describe(state, searcher.collection, data, params, name if len(files) > 1 else UPLOAD_NAME)
        for data, name in zip(files, names, strict=True)
    ]
    if params.same_patient:
        _note_patient(searcher.collection, queries[0])
    with state.concurrency.slot(), query_deadline(state.settings.query_seconds) as deadline:
        answer = searcher.by_examples(search.described(queries), search_request, deadline)
    return search.completed(_complete(answer, params, []))


def _note_patient(collection: Collection, image: QueryImage) -> None:
    """Count the identifier in a file towards its limit, and log it."""
    if image.patient_id.strip():
        key_of_identifier(collection, image.patient_id)


def _check_query(params: SearchBody) -> None:
    """Raise InvalidInput for parameters that do not go together."""
    if params.region and not params.image_id:
        raise InvalidInput("region: needs image_id, the image it is a region of")
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


def _describe(state: AppState, collection: Collection, data: bytes, params: ByImage, name: str) -> QueryImage:
    """Describe an upload; a series wholly, since the volumes of all files of a request would take much memory."""
    query = describe_upload(state.decoders, collection, data, params, name=name)
    if collection.profile.volume_grid is None:
        return query
    descriptor = collection.profile.load_descriptor(state.settings.device)
    with state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        return query.described(descriptor)


def _complete(answer: Answer, params: SearchParameters, query_ids: Iterable[str | None]) -> Answer:
    """Count and log an answer, and add the collection's name to its links."""
    metrics_routes.observe_stages(answer.timings_ms)
    metrics_routes.note_method(answer.rerank.method)
    if params.collection:
        for hit in answer.results:
            hit.links = hit.links.in_collection(params.collection)
    asked: list[str | None] = [image_id for image_id in query_ids if image_id]
    log_images(
        [*(asked or [answer.query.image_id]), *params.examples, *(hit.image_id for hit in answer.results)]
    )
    return answer
