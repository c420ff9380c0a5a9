"""Endpoints of similar instances, series and studies: /v1/similar, and DICOM JSON as in QIDO-RS (PS3.18, 10.6)."""

import json
import re
from dataclasses import fields
from functools import partial
from typing import Annotated, Any

from flask import Blueprint, Response, request
from pydantic import BeforeValidator, Field
from werkzeug.exceptions import NotAcceptable

from cbir.errors import InvalidInput
from cbir.search import Searcher
from cbir.search import example_values as example
from cbir.search.dicom_levels import Combination, Exclude, ImageGroup, Level
from cbir.store.external_links import public_archive_url
from cbir.store.records.filter_conditions import DicomScope
from cbir.system.access_rights import Scope
from service.access.audit import log_images
from service.access.scopes import AccessRule
from service.collections.app_state import current_state
from service.features.similar import dicom_json
from service.features.similar.messages import SimilarAnswer
from service.features.similar.similar import SimilarGroups, SimilarRequest, find_similar, similar_message
from service.http.operations import json_response, operation
from service.http.problems import Malformed
from service.http.request_params import MAX_NAME_CHARACTERS, Where, as_list, query_parameters
from service.http.search_parameters import AsAssignments
from service.http.timeouts import query_deadline
from service.routes import metrics_routes
from service.routes.image_routes import CollectionParameters

DICOM_JSON, JSON = "application/dicom+json", "application/json"
UID = re.compile(r"[0-9.]{1,64}")
MAX_OFFSET = 10**9

StudyUid = Annotated[str, Field(description="Study Instance UID.", examples=[example.STUDY_UID])]
SeriesUid = Annotated[str, Field(description="Series Instance UID.", examples=[example.SERIES_UID])]
InstanceUid = Annotated[str, Field(description="SOP Instance UID.", examples=[example.INSTANCE_UID])]

RULES = {
    "GET /similar": AccessRule(Scope.search, "search", framed=True),
    "GET /v1/similar": AccessRule(Scope.search, "search"),
    "GET /dicomweb/studies/*/similar": AccessRule(Scope.search, "search"),
    "GET /v1/images/*/priors": AccessRule(Scope.search, "search"),
    "GET /dicomweb/studies/*/priors": AccessRule(Scope.search, "search"),
    "GET /dicomweb/studies/*/series/*/similar": AccessRule(Scope.search, "search"),
    "GET /dicomweb/studies/*/series/*/instances/*/similar": AccessRule(Scope.search, "search"),
}
blueprint = Blueprint("similar", __name__)


class SimilarParameters(CollectionParameters):
    """Parameters of every search for similar instances, series or studies."""

    level: Level = Field(
        default=Level.instance,
        description="What to return: instance (the default), series or study.",
        examples=["series"],
    )
    combine: Combination = Field(
        default=Combination.max,
        description="How the scores of a group's images become its score: their maximum (the default), their sum, "
        "their number, or maxsim, the mean over the query's images of the similarity to the best image of the group.",
        examples=["sum"],
    )
    exclude: Exclude = Field(
        default=Exclude.instance,
        description="Part of the query to leave out of the results: instance (the default), series, study or "
        "patient; at least what `level` says.",
        examples=["study"],
    )
    depth: int | None = Field(
        default=None,
        ge=1,
        le=MAX_OFFSET,
        description="Images of each ranking list that count, at least 1; not with maxsim. By default the service "
        "chooses the number.",
        examples=[100],
    )
    rerank: str | None = Field(
        default=None,
        max_length=MAX_NAME_CHARACTERS,
        description="Name of a re-ranker, one of those of `/v1/rerankers` or `auto`; by default that of the "
        "service's settings.",
        examples=["aqe"],
    )
    parameters: AsAssignments
    where: Where = Field(default=[])
    limit: int = Field(
        default=20,
        ge=1,
        le=MAX_OFFSET,
        description="Results of a page, at least 1; 20 by default.",
        examples=[10],
    )
    offset: int = Field(
        default=0, ge=0, le=MAX_OFFSET, description="Results to skip, best first; 0 by default.", examples=[0]
    )

    def to_request(self) -> SimilarRequest:
        """Return the request for `find_similar`."""
        values = {each.name: getattr(self, each.name) for each in fields(SimilarRequest)}
        return SimilarRequest(**values | {"parameters": self.parameters.root})


def _uid(text: str) -> str:
    if not UID.fullmatch(text):
        raise ValueError("is not a UID: 1 to 64 digits and dots")
    return text


Uid = Annotated[str, BeforeValidator(_uid)]


class SimilarByUids(SimilarParameters):
    """The instance, series or study to search with."""

    study: Uid = Field(description="Study Instance UID.", examples=[example.STUDY_UID])
    series: Uid | None = Field(
        default=None,
        description="Series Instance UID; omitted to search with the whole study.",
        examples=[example.SERIES_UID],
    )
    instance: Uid | None = Field(
        default=None,
        description="SOP Instance UID, which needs its series too; omitted to search with the whole series.",
        examples=[example.INSTANCE_UID],
    )

    def scope(self) -> DicomScope:
        """Return the scope of the query; raises InvalidInput for an instance without its series."""
        if self.instance and not self.series:
            raise InvalidInput("instance: needs its series too")
        return DicomScope(self.study, self.series or "", self.instance or "")


class SimilarByDicom(SimilarParameters):
    """Parameters of a search with results as DICOM JSON."""

    includefield: Annotated[list[str], BeforeValidator(as_list)] = Field(
        default=[],
        description="Keywords or tags of additional attributes, separated by commas, or `all` (PS3.18, 8.3.4.3).",
        examples=[["BodyPartExamined"]],
    )


@blueprint.get("/v1/similar")
@operation(
    "similar",
    {200: SimilarAnswer},
    query=SimilarByUids,
    problems=(504,),
    python=f'client.similar("{example.STUDY_UID}")',
)
def get_similar() -> Response:
    """Find instances, series or studies similar to the one with the given UIDs.

    At most 20 of its images, evenly spread, are searched with, each by itself. At level series or study the scores
    of the images are combined by max, sum or frequency. With combine=maxsim, at most 100 of its images are compared
    with all images by distance, without re-ranking, and each result has the image that is most similar to each of
    them. Images that are not DICOM are never returned.
    """
    params = query_parameters(SimilarByUids)
    scope = params.scope()
    similar, _ = search_similar(scope, params)
    for group in similar.groups if params.collection else ():
        group.best.links = group.best.links.in_collection(params.collection)
    answer = similar_message(scope, params.to_request(), similar)
    return json_response(answer)


_dicom_operation = partial(
    operation,
    responses={200: DICOM_JSON, 204: None},
    query=SimilarByDicom,
    problems=(406, 504),
    examples={200: [dicom_json.EXAMPLE]},
)


@blueprint.get("/dicomweb/studies/<study>/series/<series>/instances/<instance>/similar")
@_dicom_operation(
    "similar_to_instance",
    python=f'client.similar_to_instance("{example.STUDY_UID}", "{example.SERIES_UID}", "{example.INSTANCE_UID}")',
)
def get_similar_to_instance(study: StudyUid, series: SeriesUid, instance: InstanceUid) -> Response:
    """Find instances, series or studies similar to an instance of a study, as DICOM JSON like that of QIDO-RS.

    The score is (0077,1001) of the private creator CBIR SIMILARITY. 204 if there are no results at the offset.
    """
    return _qido_response(study, series, instance)


@blueprint.get("/dicomweb/studies/<study>/series/<series>/similar")
@_dicom_operation(
    "similar_to_series", python=f'client.similar_to_series("{example.STUDY_UID}", "{example.SERIES_UID}")'
)
def get_similar_to_series(study: StudyUid, series: SeriesUid) -> Response:
    """Find instances, series or studies similar to a series, as DICOM JSON.

    The response is as that of `similar_to_instance`.
    """
    return _qido_response(study, series)


@blueprint.get("/dicomweb/studies/<study>/similar")
@_dicom_operation("similar_to_study", python=f'client.similar_to_study("{example.STUDY_UID}")')
def get_similar_to_study(study: StudyUid) -> Response:
    """Find instances, series or studies similar to a study, as DICOM JSON.

    The response is as that of `similar_to_instance`.
    """
    return _qido_response(study)


def _qido_response(*uids: str) -> Response:
    media_type = accepted_type()
    try:
        if not all(map(UID.fullmatch, uids)):
            raise InvalidInput("the address: a UID has 1 to 64 digits and dots")
        params = query_parameters(SimilarByDicom)
        tags = dicom_json.included_tags(params.includefield)
        similar, searcher = search_similar(DicomScope(*uids), params)
    except InvalidInput as error:
        raise Malformed(str(error)) from error  # QIDO-RS has 400 only (PS3.18, 8.5)
    datasets = _datasets(searcher, params, similar.groups, tags)
    if not datasets:
        return Response(status=204)
    response = Response(json.dumps(datasets), mimetype=media_type)
    remaining = similar.total - params.offset - len(similar.groups)
    if remaining:
        text = f'299 cbir "There are {remaining} additional results that can be requested"'
        response.headers["Warning"] = text
    return response


def accepted_type() -> str:
    """Return the media type to respond with; raises NotAcceptable."""
    accepted = request.accept_mimetypes
    dicom, plain = (accepted.quality(name) if accepted else 1.0 for name in (DICOM_JSON, JSON))
    if not dicom and not plain:
        raise NotAcceptable(f"this address responds with {DICOM_JSON}; /v1/similar responds with plain JSON")
    return DICOM_JSON if dicom >= plain else JSON


def search_similar(scope: DicomScope, params: SimilarParameters) -> tuple[SimilarGroups, Searcher]:
    """Search with the images in `scope`; return the page of groups that `params` request, and the searcher."""
    state = current_state()
    limit = state.concurrency
    with limit.admit(), limit.slot(), query_deadline(state.settings.query_seconds) as deadline:
        searcher = state.searcher(params.collection)
        similar = find_similar(searcher, scope, params.to_request(), deadline)
    metrics_routes.observe_stages(similar.timings_ms)
    reported = {match.image.image_id for group in similar.groups for match in group.matches}
    reported |= {group.best.image_id for group in similar.groups}
    log_images([*(record.image_id for record in similar.queries), *sorted(reported)])
    return similar, searcher


def _datasets(
    searcher: Searcher, params: SimilarParameters, page: list[ImageGroup], tags: set[str]
) -> list[dict[str, Any]]:
    collection, archive = searcher.collection, public_archive_url(searcher.settings)
    records = collection.records_by_id(group.best.image_id for group in page)
    counts = collection.study_counts((record.study, record.series) for record in records.values())
    datasets = []
    for rank, group in enumerate(page, start=params.offset + 1):
        record = records.get(group.best.image_id)
        if record is None:  # deleted since the search
            continue
        match = dicom_json.QidoMatch(
            rank=rank,
            group=group,
            level=params.level,
            record=record,
            counts=counts[record.study, record.series],
            archive=archive,
            thumbnail=group.best.links.in_collection(params.collection).thumbnail,
        )
        datasets.append(dicom_json.qido_dataset(match, tags))
    return datasets
