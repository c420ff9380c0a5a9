"""Endpoints of saved cases: list, save, read, change, delete, and export as a teaching file."""

from enum import StrEnum
from typing import Annotated

from flask import Blueprint, Response, request
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from service.access.audit import log_images
from service.collections.app_state import current_state
from service.features.saved.cases import tables as saved_cases
from service.features.saved.cases.pdf_file import render_pdf
from service.features.saved.cases.teaching_file import (
    DEFAULT_LABELS,
    chosen_answers,
    compose_teaching_file,
    render_html,
)
from service.features.saved.cases.visible_cases import (
    VisibleCase,
    current_viewer,
    find_own_case,
    find_visible_case,
    list_visible_cases,
    require_owner,
    save_case,
)
from service.features.saved.messages import CASE_ID, CaseChange, CasePage, NewCase, SavedCase
from service.http import request_params
from service.http.operations import IMAGE_FILES, json_response, operation
from service.http.problems import SourceGone
from service.http.request_bodies import uploaded_file
from service.http.responses import picture_response
from service.routes.image_routes import CollectionParameters, check_cursor
from service.state.database import state_database

blueprint = Blueprint("cases", __name__, url_prefix="/v1/cases")

MAX_PAGE = 200
MAX_LABELS = 6  # of a teaching file, whose cells must fit on a page
MAX_RANKS = 200
CaseIdInPath = Annotated[str, Field(description="Id of the case, as `cases` lists it.", examples=[CASE_ID])]


class SavedListParameters(request_params.Parameters):
    """Page of a list of cases or cohorts."""

    limit: int = Field(
        default=50,
        ge=1,
        le=MAX_PAGE,
        description=f"Items of a page, from 1 to {MAX_PAGE}; 50 by default.",
        examples=[10],
    )
    cursor: Annotated[str | None, AfterValidator(check_cursor)] = Field(
        default=None,
        description="Field `next` of the previous page; omitted for the first page.",
        examples=["41"],
    )

    @property
    def before(self) -> int | None:
        """Number of the first item that is not on this page."""
        return int(self.cursor) if self.cursor else None


class CaseListParameters(SavedListParameters):
    """Page of the list of cases."""

    words: str = Field(
        default="",
        max_length=200,
        description="Text in title or note, in upper or lower case; all cases by default.",
        examples=["knee"],
    )


class UploadedCase(CollectionParameters):
    """Case whose query is an uploaded image."""

    case: Annotated[
        NewCase,
        BeforeValidator(request_params.from_json),
        WithJsonSchema({"type": "string", "contentMediaType": request_params.JSON}),
    ] = Field(
        description="The case as JSON, see NewCase; its `search` has neither image_id nor text.",
        examples=['{"title": "Knee", "search": {"k": 20}}'],
    )


class Format(StrEnum):
    """Format of a teaching file."""

    html = "html"
    pdf = "pdf"


class TeachingFileParameters(request_params.Parameters):
    """Content of a teaching file."""

    format: Format = Field(default=Format.html, description="html (the default) or pdf.", examples=["html"])
    label_keys: Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=MAX_LABELS)] = Field(
        default=list(DEFAULT_LABELS),
        description=f"Keys of the labels to show, at most {MAX_LABELS}, each sent as a parameter of its own; `label` "
        "by default, none for an empty one. Labels can identify a patient: choose those that do not.",
        examples=[["label"]],
    )
    ranks: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=MAX_RANKS)] | None = Field(
        default=None,
        description="Ranks of the results to show, each sent as a parameter of its own; the first 12 by default, "
        "none for 0.",
        examples=[[1, 2, 5]],
    )


@blueprint.get("")
@operation(
    "cases",
    {200: CasePage},
    query=CaseListParameters,
    problems=(400, 422),
    python="list(client.cases())",
)
def get_cases() -> Response:
    """List saved cases page by page: the caller's own, and those that others share, newest first.

    Administrators see all cases. Send the field `next` of a page as `cursor` to get the following one.
    """
    params = request_params.query_parameters(CaseListParameters)
    return json_response(list_visible_cases(params.words, params.before, params.limit))


@blueprint.post("")
@operation(
    "save_case",
    {201: SavedCase},
    query=CollectionParameters,
    body={request_params.JSON: NewCase, **IMAGE_FILES},
    form=UploadedCase,
    problems=(400, 404, 413, 415, 422, 507),
    confirm="Save this case?",
    python='client.save_case("Knee", client.search("query.png"), query="query.png")',
    collection_in_path=False,
)
def post_case() -> Response:
    """Save a search as a case: its query, parameters, results and judgements, with a title and a note.

    A query that is an image of the collection or a text is sent as JSON. An uploaded query is sent in the form field
    `image`, with the case in the field `case`: the service keeps a picture of it, at most 2048 pixels a side, without
    the file's header, and nothing of its name. Text in the pixels stays. Results and judgements of images that the
    collection does not have are left out. A caller can have 1,000 cases.
    """
    state = current_state()
    with state.concurrency.admit():
        if request.mimetype == request_params.JSON:
            name = request_params.query_parameters(CollectionParameters).collection
            case, data = request_params.json_body(NewCase), None
        else:
            data = uploaded_file(state.settings)
            params = request_params.request_parameters(UploadedCase)
            name, case = params.collection, params.case
        saved = find_visible_case(save_case(state, name, case, data))
    _log(saved)
    return json_response(saved.message(), 201)


@blueprint.get("/<case_id>")
@operation("case", {200: SavedCase}, problems=(404,), python=f'client.case("{CASE_ID}")')
def get_case(case_id: CaseIdInPath) -> Response:
    """Return a saved case.

    Results have the labels that the images have now. Images that were deleted meanwhile are left out.
    """
    case = find_visible_case(case_id)
    _log(case)
    return json_response(case.message())


@blueprint.patch("/<case_id>")
@operation(
    "change_case",
    {200: SavedCase},
    body={request_params.JSON: CaseChange},
    problems=(400, 404, 413, 415, 422, 507),
    confirm="Change this case?",
    python=f'client.change_case("{CASE_ID}", note="Compare with the left knee.")',
)
def patch_case(case_id: CaseIdInPath) -> Response:
    """Change title, note or sharing of a case of the caller.

    What is absent, or null, stays. 404 for a case of someone else, also if it is shared.
    """
    change = request_params.json_body(CaseChange)
    find_own_case(case_id)
    saved_cases.change_case(state_database(), case_id, change.values())
    return json_response(find_own_case(case_id).message())


@blueprint.delete("/<case_id>")
@operation(
    "delete_case",
    {204: None},
    problems=(404, 507),
    confirm="Delete this case?",
    python=f'client.delete_case("{CASE_ID}")',
)
def delete_saved_case(case_id: CaseIdInPath) -> tuple[str, int]:
    """Delete a case of the caller; administrators can delete every case.

    Its query picture, judgements and note are removed for good.
    """
    row = saved_cases.find_case(state_database(), current_viewer(), case_id)
    require_owner(row, f"case {case_id}", "delete", or_admin=True)
    saved_cases.delete_case(state_database(), case_id)
    return "", 204


@blueprint.get("/<case_id>/picture")
@operation(
    "case_picture",
    {200: "image/png", 304: None},
    headers=("If-None-Match",),
    problems=(404, 410, 412),
    python=f'client.case_picture("{CASE_ID}")',
)
def get_case_picture(case_id: CaseIdInPath) -> Response:
    """Return the stored picture of an uploaded query, as PNG.

    410 if the query is an image of the collection or a text: then there is none.
    """
    find_visible_case(case_id)
    picture = saved_cases.read_picture(state_database(), case_id)
    if picture is None:
        raise SourceGone("this case has no stored picture")
    return picture_response(case_id, lambda response: response.set_data(picture))


@blueprint.get("/<case_id>/export")
@operation(
    "export_case",
    {200: "text/html"},
    query=TeachingFileParameters,
    problems=(404, 422, 504),
    python=f'client.export_case("{CASE_ID}")',
)
def get_export(case_id: CaseIdInPath) -> Response:
    """Return a case as a teaching file: one HTML document, or a PDF file.

    It has the title, the note, the query, the chosen results and labels, and no ids, UIDs, patient keys, names of
    files or times. Title, note, chosen labels and text in the pixels are not checked: look at them before you pass
    the file on. PDF needs the extra `pdf`.
    """
    params = request_params.query_parameters(TeachingFileParameters)
    state, case = current_state(), find_visible_case(case_id)
    keys = [key for key in params.label_keys if key]
    log_images(answer.image_id for answer in chosen_answers(case, params.ranks))
    with state.concurrency.admit():
        content = compose_teaching_file(state, case, keys, params.ranks)
        if params.format is Format.pdf:
            response = Response(render_pdf(content, state.settings.pdf_font), mimetype="application/pdf")
        else:
            response = Response(render_html(content), mimetype="text/html")
    response.headers["Content-Disposition"] = f'attachment; filename="case.{params.format}"'
    return response


def _log(case: VisibleCase) -> None:
    log_images([case.row.query_image, *(answer.image_id for answer in case.content.answers)])
