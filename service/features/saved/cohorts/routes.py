"""Endpoints of cohorts: begin, list, judge in rounds, estimate what is missing, export, delete."""

from typing import Annotated

from flask import Blueprint, Response
from pydantic import Field

from cbir.errors import InvalidInput
from cbir.search import example_values as example
from cbir.search import record_links
from cbir.search.cohorts.cohort_round import BATCH, CohortRound, next_batch, start_round
from cbir.search.cohorts.export_formats import EXPORTS
from service.access.audit import log_images
from service.collections.app_state import current_state
from service.features.saved.cases.routes import SavedListParameters
from service.features.saved.cases.visible_cases import current_viewer, require_owner
from service.features.saved.cohorts import tables as saved_cohorts
from service.features.saved.cohorts.visible_cohorts import (
    VisibleCohort,
    begin_cohort,
    check_judged,
    find_own_cohort,
    find_visible_cohort,
    list_visible_cohorts,
)
from service.features.saved.messages import (
    COHORT_ID,
    MAX_BATCH,
    CohortBatch,
    CohortChange,
    CohortEstimate,
    CohortJudgements,
    CohortPage,
    CohortSummary,
    ExportFormat,
    NewCohort,
    NextImage,
    SavedCohort,
)
from service.http import request_params
from service.http.operations import json_response, operation
from service.http.responses import LabelBudget
from service.routes.image_routes import Cards, CollectionParameters
from service.state.database import state_database

blueprint = Blueprint("cohorts", __name__, url_prefix="/v1/cohorts")

MAX_EXPORT_LABELS = 200 * 2**20  # bytes of a file
CohortIdInPath = Annotated[
    str, Field(description="Id of the cohort, as `cohorts` lists it.", examples=[COHORT_ID])
]


class CohortListParameters(SavedListParameters):
    """Page of the list of cohorts."""


class BatchParameters(request_params.Parameters):
    """Images to judge next."""

    count: int = Field(
        default=BATCH,
        ge=1,
        le=MAX_BATCH,
        description=f"Number of images, from 1 to {MAX_BATCH}; {BATCH} by default.",
        examples=[BATCH],
    )
    cards: Cards = False


class CohortParameters(request_params.Parameters):
    """Choice of what the images of a cohort have."""

    cards: Cards = False


class CohortExportParameters(request_params.Parameters):
    """Format of an exported cohort."""

    format: ExportFormat = Field(
        default="csv",
        description="csv: all judged images; dicom: UIDs of the studies, series and instances that belong to the "
        "cohort; monai: datastore of MONAI Label; coco: images with categories; label-studio: tasks with "
        "annotations.",
        examples=["csv"],
    )


@blueprint.get("")
@operation(
    "cohorts",
    {200: CohortPage},
    query=CohortListParameters,
    problems=(400, 422),
    python="list(client.cohorts())",
)
def get_cohorts() -> Response:
    """List cohorts page by page: the caller's own, and those that others share, newest first.

    Administrators see all cohorts. Send the field `next` of a page as `cursor` to get the following one.
    """
    params = request_params.query_parameters(CohortListParameters)
    return json_response(list_visible_cohorts(params.before, params.limit))


@blueprint.post("")
@operation(
    "begin_cohort",
    {201: CohortSummary},
    query=CollectionParameters,
    body={request_params.JSON: NewCohort},
    problems=(400, 404, 413, 415, 422, 507),
    confirm="Begin this cohort?",
    python=f'client.begin_cohort("Lateral knees", ["{example.IMAGE_ID}"])',
    collection_in_path=False,
)
def post_cohort() -> Response:
    """Begin a cohort, "find all of these", with images that belong to it.

    Ask for the next images to judge, send the judgements, and repeat until the estimate says that enough are found.
    Judgements of images that the collection does not have are refused. A caller can have 200 cohorts.
    """
    new = request_params.json_body(NewCohort)
    name = request_params.query_parameters(CollectionParameters).collection
    cohort = find_own_cohort(begin_cohort(current_state(), name, new))
    _log(cohort)
    return json_response(cohort.summary(), 201)


@blueprint.get("/<cohort_id>")
@operation(
    "cohort",
    {200: SavedCohort},
    query=CohortParameters,
    problems=(404, 422),
    python=f'client.cohort("{COHORT_ID}")',
)
def get_cohort(cohort_id: CohortIdInPath) -> Response:
    """Return a cohort with its judged images, in the order of judging.

    Images that were deleted meanwhile, or that the caller may not see, are left out.
    """
    cohort = find_visible_cohort(cohort_id)
    _log(cohort)
    return json_response(cohort.message(request_params.query_parameters(CohortParameters).cards))


@blueprint.patch("/<cohort_id>")
@operation(
    "change_cohort",
    {200: CohortSummary},
    body={request_params.JSON: CohortChange},
    problems=(400, 404, 413, 415, 422, 507),
    confirm="Change this cohort?",
    python=f'client.change_cohort("{COHORT_ID}", note="Without implants.")',
)
def patch_cohort(cohort_id: CohortIdInPath) -> Response:
    """Change title, note or sharing of a cohort of the caller.

    What is absent, or null, stays. 404 for a cohort of someone else, also if it is shared.
    """
    change = request_params.json_body(CohortChange)
    row = find_own_cohort(cohort_id).row
    saved_cohorts.change_cohort(state_database(), row.number, change.values())
    return json_response(find_own_cohort(cohort_id).summary())


@blueprint.delete("/<cohort_id>")
@operation(
    "delete_cohort",
    {204: None},
    problems=(404, 507),
    confirm="Delete this cohort?",
    python=f'client.delete_cohort("{COHORT_ID}")',
)
def delete_saved_cohort(cohort_id: CohortIdInPath) -> tuple[str, int]:
    """Delete a cohort of the caller with its judgements; administrators can delete every cohort.

    The images stay in the collection.
    """
    row = saved_cohorts.find_cohort(state_database(), current_viewer(), cohort_id)
    require_owner(row, f"cohort {cohort_id}", "delete", or_admin=True)
    saved_cohorts.delete_cohort(state_database(), row.number)
    return "", 204


@blueprint.post("/<cohort_id>/batch")
@operation(
    "next_cohort_batch",
    {200: CohortBatch},
    query=BatchParameters,
    problems=(400, 404, 422, 504, 507),
    confirm="Choose the next images of this cohort?",
    python=f'client.next_cohort_batch("{COHORT_ID}")',
)
def post_batch(cohort_id: CohortIdInPath) -> Response:
    """Return the images to judge next, and the estimate of how many are missing.

    Most images are the most probable ones; one of twelve is drawn at random. The same images come again until some
    are judged.
    """
    params = request_params.query_parameters(BatchParameters)
    cohort, state = find_own_cohort(cohort_id), current_state()
    with state.concurrency.admit():
        current = _start_round(cohort)
        batch = next_batch(cohort.searcher, current, params.count)
        estimate = _estimate(current)
    existing = cohort.searcher.collection.numbers_by_id
    saved_cohorts.propose(state_database(), cohort.row.number, batch, existing)
    records = cohort.searcher.collection.records_by_id(image.image_id for image in batch)
    log_images(image.image_id for image in batch)
    items = [
        NextImage(
            **image._asdict(),
            labels=records[image.image_id].labels,
            links=record_links(state.settings, records[image.image_id]).in_collection(cohort.row.collection),
        )
        for image in batch
        if image.image_id in records
    ]
    LabelBudget().leave_out(items)
    if params.cards:
        cohort.give_cards(items, records)
    return json_response(CohortBatch(items=items, estimate=estimate))


@blueprint.post("/<cohort_id>/judgements")
@operation(
    "judge_cohort",
    {200: CohortSummary},
    body={request_params.JSON: CohortJudgements},
    problems=(400, 404, 413, 415, 422, 507),
    confirm="Add these judgements?",
    python=f'client.judge_cohort("{COHORT_ID}", {{"{example.OTHER_IMAGE_ID}": True}})',
)
def post_judgements(cohort_id: CohortIdInPath) -> Response:
    """Judge images: whether they belong to the cohort, also others than those of the batch.

    A judgement replaces an earlier one of the same image. Judgements of one request are undone together.
    """
    judgements = request_params.json_body(CohortJudgements).judgements
    cohort = find_own_cohort(cohort_id)
    judged = check_judged((each.image_id, each.relevant) for each in judgements)
    existing = cohort.searcher.collection.numbers_by_id
    saved_cohorts.judge(state_database(), cohort.row.number, judged, existing)
    log_images(judged)
    return json_response(find_own_cohort(cohort_id).summary())


@blueprint.post("/<cohort_id>/undo")
@operation(
    "undo_cohort",
    {200: CohortSummary},
    problems=(404, 507),
    confirm="Take back the last judgements?",
    python=f'client.undo_cohort("{COHORT_ID}")',
)
def post_undone_judgement(cohort_id: CohortIdInPath) -> Response:
    """Take back the judgements of the last request; those before it of the same images hold again.

    Judgements that the cohort began with stay.
    """
    cohort = find_own_cohort(cohort_id)
    log_images(saved_cohorts.undo_step(state_database(), cohort.row.number))
    return json_response(find_own_cohort(cohort_id).summary())


@blueprint.get("/<cohort_id>/estimate")
@operation(
    "cohort_estimate",
    {200: CohortEstimate},
    problems=(404, 422, 504),
    python=f'client.cohort_estimate("{COHORT_ID}")',
)
def get_estimate(cohort_id: CohortIdInPath) -> Response:
    """Return how many images of a cohort are found, and how many are missing, with 95 % intervals.

    It counts the images that the caller may see.
    """
    cohort = find_visible_cohort(cohort_id)
    with current_state().concurrency.admit():
        return json_response(_estimate(_start_round(cohort)))


@blueprint.get("/<cohort_id>/export")
@operation(
    "export_cohort",
    {200: "text/csv"},
    query=CohortExportParameters,
    problems=(404, 422),
    python=f'client.export_cohort("{COHORT_ID}")',
)
def get_cohort_export(cohort_id: CohortIdInPath) -> Response:
    """Return a cohort as a file: csv, or JSON in one of several formats.

    Files name images by their ids and DICOM UIDs, never by the names of files; labels are included.
    """
    params = request_params.query_parameters(CohortExportParameters)
    cohort = find_visible_cohort(cohort_id, MAX_EXPORT_LABELS)
    if cohort.bare:
        raise InvalidInput("the labels of these images are too long for one file; use smaller cohorts")
    _log(cohort)
    export = EXPORTS[params.format]
    text = export.write(
        cohort.row.title, [(cohort.records[each.image_id], each.relevant) for each in cohort.judged]
    )
    response = Response(text, mimetype=export.media_type)
    response.headers["Content-Disposition"] = f'attachment; filename="{export.file_name}"'
    return response


def _start_round(cohort: VisibleCohort) -> CohortRound:
    return start_round(cohort.searcher, cohort.judged, cohort.row.conditions)


def _estimate(current: CohortRound) -> CohortEstimate:
    missing = current.missing()
    return CohortEstimate(
        images=current.pool.total,
        judged=len(current.judged),
        found=missing.found,
        missing=round(missing.missing, 1),
        missing_low=missing.low,
        missing_high=missing.high,
        recall=missing.recall,
        recall_low=missing.recall_low,
        recall_high=missing.recall_high,
        advice=missing.advice,
    )


def _log(cohort: VisibleCohort) -> None:
    log_images(image.image_id for image in cohort.judged)
