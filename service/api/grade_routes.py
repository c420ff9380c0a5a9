"""Endpoint POST /v1/grade."""

from flask import Blueprint, Response, request
from pydantic import BaseModel, ConfigDict, Field

from cbir.grading.grade import Grade
from cbir.search import record_links
from service.access.audit import log_images
from service.api.operations import IMAGE_FILES, json_response, operation
from service.collections.app_state import current_state
from service.http.request_params import JSON, Rendering, decode_upload, request_parameters, uploaded_file
from service.http.timeouts import Deadline

blueprint = Blueprint("grade", __name__, url_prefix="/v1")


class GradeParameters(BaseModel):
    """grade_column: the label that holds the grades, None for the only one with a model. collection None: default."""

    model_config = ConfigDict(extra="forbid")

    grade_column: str | None = Field(None, max_length=100)
    collection: str | None = None


class GradeByImage(GradeParameters, Rendering):
    """Grade an uploaded image."""

    exclude_patient: str | None = Field(
        None,
        description="a patient key, or the identifier it was made from, whose images are excluded from the list; "
        "in the query string a key only, since addresses are written to logs",
    )


class GradeById(GradeParameters):
    """Grade an image of the collection; images of its patient are excluded from the list."""

    image_id: str


@blueprint.post("/grade")
@operation(
    "grade",
    {200: Grade},
    body={JSON: GradeById, **IMAGE_FILES},
    form=GradeByImage,
    query=GradeByImage,
    problems=(400, 404, 413, 415, 422),
)
def post_grade() -> Response:
    """Grade an image by its two neighbours among the graded images.

    Send the image in the form field `image` or as the body itself; name an image of the collection in a JSON body.
    404 if the collection has no grade model: `cbir grade fit` fits one.
    """
    state = current_state()
    query_ids: list[str] = []
    with state.concurrency.admit():
        if request.mimetype == JSON:
            by_id = request_parameters(GradeById)
            name, query_ids = by_id.collection, [by_id.image_id]
            with state.concurrency.slot():
                grader = state.graders.get(state.searcher(name).collection, by_id.grade_column)
                grade = grader.by_id(by_id.image_id)
        else:
            data = uploaded_file(state.settings)
            by_image = request_parameters(GradeByImage)
            name = by_image.collection
            with state.concurrency.slot():
                grader = state.graders.get(state.searcher(name).collection, by_image.grade_column)
                image = decode_upload(state.settings, data, by_image, Deadline())
                grade = grader.by_image(image, by_image.exclude_patient)
    neighbours = [neighbour for neighbour in (grade.lighter, grade.severer) if neighbour]
    for neighbour in neighbours:
        record = state.searcher(name).collection.record(neighbour.image_id)
        neighbour.links = record_links(state.settings, record).in_collection(name)
    log_images([*query_ids, *(neighbour.image_id for neighbour in neighbours)])
    return json_response(grade)
