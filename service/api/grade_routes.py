"""Endpoint POST /v1/grade."""

from flask import Blueprint, Response, request
from pydantic import Field

from cbir.grading.grade import Grade
from cbir.search import record_links
from service.access.audit import log_images
from service.api.operations import IMAGE_FILES, json_response, operation
from service.collections.app_state import current_state
from service.http import request_params
from service.http.timeouts import Deadline

blueprint = Blueprint("grade", __name__, url_prefix="/v1")


class GradeParameters(request_params.Parameters):
    """grade_column: the label that holds the grades, None for the only one with a model. collection None: default."""

    grade_column: str | None = Field(None, max_length=100)
    collection: str | None = None


class GradeByImage(GradeParameters, request_params.Rendering):
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
    body={request_params.JSON: GradeById, **IMAGE_FILES},
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
    params: GradeById | GradeByImage
    with state.concurrency.admit():
        if request.mimetype == request_params.JSON:
            params = request_params.request_parameters(GradeById)
        else:
            data = request_params.uploaded_file(state.settings)
            params = request_params.request_parameters(GradeByImage)
        with state.concurrency.slot():
            collection = state.searcher(params.collection).collection
            grader = state.graders.get(collection, params.grade_column)
            if isinstance(params, GradeById):
                grade = grader.by_id(params.image_id)
            else:
                image = request_params.decode_upload(state.settings, data, params, Deadline())
                grade = grader.by_image(image, params.exclude_patient)
    neighbours = [neighbour for neighbour in (grade.lighter, grade.severer) if neighbour]
    for neighbour in neighbours:
        record = collection.record(neighbour.image_id)
        neighbour.links = record_links(state.settings, record).in_collection(params.collection)
    query_ids = [params.image_id] if isinstance(params, GradeById) else []
    log_images([*query_ids, *(neighbour.image_id for neighbour in neighbours)])
    return json_response(grade)
