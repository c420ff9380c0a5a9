"""What is like an instance, a series or a study, as QIDO-RS answers (PS3.18, 10.6) and in our own JSON."""

import json
import re
from typing import Annotated, Any

from flask import Blueprint, Response, request
from pydantic import BeforeValidator, Field
from werkzeug.exceptions import NotAcceptable

from cbir.errors import InvalidInput
from cbir.levels import Combination, Group, Level, key
from cbir.external_links import public_archive_url
from cbir.client.messages import SimilarAnswer, SimilarPlace, SimilarQuery
from cbir.search import Searcher
from cbir.similar import Exclude, Similar, Wanted, similar
from cbir.store.instances import DicomScope, by_ids, related
from service.http import request_params
from service.api import dicom_json
from service.api import metrics_routes
from service.access.audit import log_images
from service.api.image_routes import InCollection
from service.api.hit_links import of_hit
from service.api.operations import operation
from service.http.timeouts import Watch
from service.http.problems import Malformed
from service.collections.app_state import state

blueprint = Blueprint("similar", __name__)

DICOM_JSON, JSON = "application/dicom+json", "application/json"
UID = re.compile(r"[0-9.]{1,64}")
MOST_OFFSET = 10**9
PROBLEMS = (400, 404, 406)


class Asked(InCollection):
    """Of every such search.

    level: what is answered. combine: how the scores of a group's images become its own. exclude: what of the
    query's is left out, at least what `level` says. depth: images of each list that count. limit, offset: of the
    answers, best first.
    """

    level: Level = Level.instance
    combine: Combination = Combination.max
    exclude: Exclude = Exclude.instance
    depth: int | None = Field(None, ge=1)
    rerank: str | None = None
    where: request_params.Where = Field([])
    limit: int = Field(20, ge=1)
    offset: int = Field(0, ge=0, le=MOST_OFFSET)

    def wanted(self) -> Wanted:
        """As the search takes it."""
        return Wanted(self.level, self.combine, self.exclude, self.depth, self.rerank, tuple(self.where))


def _uid(text: str) -> str:
    if not UID.fullmatch(text):
        raise ValueError("is no UID: 1 to 64 digits and dots")
    return text


Uid = Annotated[str, BeforeValidator(_uid)]


class AskedByUids(Asked):
    """series, instance: left out to search with all of the study, or of the series."""

    study: Uid
    series: Uid | None = None
    instance: Uid | None = None

    def scope(self) -> DicomScope:
        """What is searched with; raises InvalidInput for an instance without its series."""
        if self.instance and not self.series:
            raise InvalidInput("instance: its series is needed too")
        return DicomScope(self.study, self.series or "", self.instance or "")


class AskedByDicom(Asked):
    """includefield: keywords or tags of further attributes, or "all"."""

    includefield: Annotated[list[str], BeforeValidator(request_params.one_or_more)] = Field([])


@blueprint.get("/v1/similar")
@operation("similar", {200: SimilarAnswer}, query=AskedByUids, problems=(404, 422))
def own() -> Response:
    """Instances, series or studies like the one named by its UIDs.

    At most 20 of its images are searched with, evenly spread, each by itself. At level series or study the images
    found are combined by max, sum or frequency. Images that are not DICOM are no answers here.
    """
    wanted = request_params.query(AskedByUids)
    scope = wanted.scope()
    found, shown, _ = search(scope, wanted)
    for group in shown if wanted.collection else ():
        group.best.links = of_hit(group.best, wanted.collection)
    answer = SimilarAnswer(
        query=SimilarQuery(
            study=scope.study,
            series=scope.series or None,
            instance=scope.instance or None,
            images=len(found.queries),
        ),
        level=wanted.level,
        combine=wanted.combine,
        exclude=wanted.exclude,
        total=len(found.groups),
        results=[_place(wanted, *one) for one in enumerate(shown, start=wanted.offset + 1)],
        rerank=found.how,
        timings_ms=found.timings_ms,
    )
    return Response(answer.model_dump_json(), mimetype=JSON)


def _dicom(name: str) -> Any:
    return operation(name, {200: DICOM_JSON, 204: None}, query=AskedByDicom, problems=PROBLEMS)


@blueprint.get("/dicomweb/studies/<study>/series/<series>/instances/<instance>/similar")
@_dicom("similar_to_instance")
def to_instance(study: str, series: str, instance: str) -> Response:
    """What is like an instance, in the DICOM JSON model, with the attributes of QIDO-RS.

    The score is (0077,1001) of the private creator CBIR SIMILARITY. 204 where nothing is left at that offset.
    """
    return _qido(study, series, instance)


@blueprint.get("/dicomweb/studies/<study>/series/<series>/similar")
@_dicom("similar_to_series")
def to_series(study: str, series: str) -> Response:
    """What is like a series, in the DICOM JSON model; see `similar_to_instance`."""
    return _qido(study, series)


@blueprint.get("/dicomweb/studies/<study>/similar")
@_dicom("similar_to_study")
def to_study(study: str) -> Response:
    """What is like a study, in the DICOM JSON model; see `similar_to_instance`."""
    return _qido(study)


def _qido(*uids: str) -> Response:
    media = _media()
    try:
        if not all(map(UID.fullmatch, uids)):
            raise InvalidInput("the address: a UID has 1 to 64 digits and dots")
        wanted = request_params.query(AskedByDicom)
        included = dicom_json.fields(wanted.includefield)
        found, shown, searcher = search(DicomScope(*uids), wanted)
    except InvalidInput as error:
        raise Malformed(str(error)) from error  # QIDO-RS knows 400 alone (PS3.18, 8.5)
    told = _datasets(searcher, wanted, shown, included)
    if not told:
        return Response(status=204)
    response = Response(json.dumps(told), mimetype=media)
    left = len(found.groups) - wanted.offset - len(shown)
    if left:
        text = f'299 cbir "There are {left} additional results that can be requested"'
        response.headers["Warning"] = text
    return response


def _media() -> str:
    """The media type to answer in; raises NotAcceptable."""
    accepted = request.accept_mimetypes
    dicom, plain = (accepted.quality(kind) if accepted else 1.0 for kind in (DICOM_JSON, JSON))
    if not dicom and not plain:
        raise NotAcceptable(f"this address answers in {DICOM_JSON}; /v1/similar has our own JSON")
    return DICOM_JSON if dicom >= plain else JSON


def search(scope: DicomScope, wanted: Asked) -> tuple[Similar, list[Group], Searcher]:
    """All that was found, the page of it that was asked for, and who found it."""
    here = state()
    with here.gate.place(), here.gate.turn():
        searcher = here.searcher(wanted.collection)
        found = similar(searcher, scope, wanted.wanted(), Watch())
    metrics_routes.observe_stages(found.timings_ms)
    shown = found.groups[wanted.offset :][: min(wanted.limit, here.settings.max_results)]
    log_images([*(record.image_id for record in found.queries), *(group.best.image_id for group in shown)])
    return found, shown, searcher


def _datasets(
    searcher: Searcher, wanted: Asked, shown: list[Group], included: set[str]
) -> list[dict[str, Any]]:
    collection, archive = searcher.collection, public_archive_url(searcher.settings)
    with collection.engine.connect() as connection:
        numbers = by_ids(connection, (group.best.image_id for group in shown))
        records = {record.image_id: record for record in collection.records(numbers).values()}
        counts = related(connection, ((one.study, one.series) for one in records.values()))
    told = []
    for rank, group in enumerate(shown, start=wanted.offset + 1):
        record = records.get(group.best.image_id)
        if record is None:  # deleted meanwhile
            continue
        thumbnail = of_hit(group.best, wanted.collection).thumbnail
        of = counts[record.study, record.series]
        found = dicom_json.Found(rank, group, wanted.level, record, of, archive, thumbnail)
        told.append(dicom_json.dataset(found, included))
    return told


def _place(wanted: Asked, rank: int, group: Group) -> SimilarPlace:
    study, *below = key(group.best, wanted.level)
    series, instance = [*below, None, None][:2]
    return SimilarPlace(
        rank=rank,
        score=group.score,
        found=group.found,
        study=study,
        series=series,
        instance=instance,
        best=group.best,
    )
