"""Endpoint POST /v1/search/batch: several searches in one request."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

from flask import Blueprint, Response, request
from pydantic import ConfigDict, Field

from cbir.errors import CbirError, InvalidInput, QueryCancelled
from cbir.search import Answer
from cbir.search import example_values as example
from cbir.search.search_options import MAX_BATCH
from service.access.auth import count_request
from service.access.caller import logged_public_text
from service.client.messages import BatchAnswers, BatchItem, ProblemDetails
from service.collections.app_state import AppState, current_state
from service.http import request_params
from service.http.operations import json_response, operation
from service.http.problems import problem_details
from service.http.request_bodies import uploaded_files
from service.http.responses import LabelBudget
from service.http.search_kinds import check_batch
from service.http.search_parameters import ByImage, SearchBody, SearchParameters
from service.routes.image_routes import CollectionParameters
from service.routes.run_search import search_by_id, search_by_upload

blueprint = Blueprint("batch", __name__, url_prefix="/v1")

RESULTS = 10  # times max_results: most results of a batch
SHARE = 0.8  # of request_seconds, after which no further query is begun

Query = Callable[[], Answer]


class BatchSearch(CollectionParameters):
    """Queries of a batch."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"queries": [{"image_id": example.IMAGE_ID, "k": 5}, {"examples": [example.OTHER_IMAGE_ID]}]}
            ]
        }
    )

    queries: Annotated[list[SearchBody], Field(min_length=1, max_length=MAX_BATCH)] = Field(
        description=f"1 to {MAX_BATCH} queries, each with the fields of a JSON body of `search`."
    )


@blueprint.post("/search/batch")
@operation(
    "search_batch",
    {200: BatchAnswers},
    body={request_params.JSON: BatchSearch},
    form=ByImage,
    several_files=True,
    query=ByImage,
    python='client.search_batch(["query.png"], k=5)',
)
def post_search_batch() -> Response:
    """Search with each of several images, ids or vectors, and return an answer or a problem for each.

    Send queries as JSON, each with the fields of `search`, or files in the form field `image`, each of which is a
    query with the other fields of the form, or of the address. A query that fails, by an unreadable image, an
    unknown id or its time limit, has problem details in place of an answer and does not affect the others. Each
    counts as a request for the rate limit. k x group_size of all queries together is at most ten times the
    setting `max_results`. A request that is malformed as a whole is refused.
    """
    state = current_state()
    with state.concurrency.admit():
        if request.mimetype == request_params.JSON:
            batch = request_params.request_parameters(BatchSearch, check_batch)
            params: Sequence[SearchParameters] = batch.queries
            for each in batch.queries:
                each.collection = each.collection or batch.collection
            queries: list[Query] = [partial(search_by_id, state, each) for each in batch.queries]
        else:
            files = uploaded_files(state.settings, allow_empty=True)
            if len(files) > MAX_BATCH:
                raise InvalidInput(f"image: at most {MAX_BATCH} files, not {len(files)}")
            by_image = request_params.request_parameters(ByImage)
            params = [by_image] * len(files)
            queries = [partial(search_by_upload, state, [data], by_image) for data in files]
        _check_total(state, params)
        items = _run(state, queries)
    return json_response(BatchAnswers(items=items))


def _check_total(state: AppState, params: Sequence[SearchParameters]) -> None:
    limit = state.settings.max_results  # of each query, which is refused by itself above it
    total, most = sum(min(each.k * each.group_size, limit) for each in params), RESULTS * limit
    if total > most:
        raise InvalidInput(
            f"k: {len(params)} queries ask for {total} results together, and {most} are allowed; send fewer queries, "
            "or a smaller k"
        )


def _run(state: AppState, queries: Sequence[Query]) -> list[BatchItem]:
    ends = time.monotonic() + SHARE * state.settings.request_seconds
    items, budget = list[BatchItem](), LabelBudget()
    for index, query in enumerate(queries):
        try:
            if index:  # the first one is the request itself
                count_request()
                if time.monotonic() > ends:
                    raise QueryCancelled(
                        "the batch takes too long; send this query again, in a smaller batch"
                    )
            items.append(BatchItem(answer=budget.bounded(query())))
        except CbirError as error:
            details = ProblemDetails(**problem_details(error, logged_public_text(error)))
            items.append(BatchItem(problem=details))
    return items
