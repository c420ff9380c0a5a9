"""Grading: where an image stands among the graded ones."""

from flask import Blueprint, Response, request
from pydantic import BaseModel, ConfigDict, Field

from cbir.grading.grade import Grade
from service.access.audit import log_images
from service.api.hit_links import links_of_record
from service.api.operations import FILE, operation
from service.collections.app_state import current_state
from service.http import request_params
from service.http.timeouts import Deadline

blueprint = Blueprint("grade", __name__, url_prefix="/v1")


class GradeParameters(BaseModel):
    """grade_column: the label that holds the grades, None for the only one learnt. collection None: the first."""

    model_config = ConfigDict(extra="forbid")

    grade_column: str | None = Field(None, max_length=100)
    collection: str | None = None


class GradeByImage(GradeParameters, request_params.Rendering):
    """An image that is sent along."""

    exclude_patient: str | None = Field(
        None,
        description="a patient key, or the identifier it was made from, whose images are left out of the list; "
        "in the query string a key only, since addresses are written into logs",
    )


class GradeById(GradeParameters):
    """An image of the collection; its patient's images are left out of the list."""

    image_id: str


@blueprint.post("/grade")
@operation(
    "grade",
    {200: Grade},
    body={
        request_params.JSON: GradeById,
        "image/*": FILE,
        "application/dicom": FILE,
        "application/octet-stream": FILE,
    },
    form=GradeByImage,
    query=GradeByImage,
    problems=(400, 404, 413, 415, 422),
)
def post_grade() -> Response:
    """The grade of the image sent or named, read between its two neighbours among the graded ones.

    The image goes into the field `image` of a form, or is the body itself; an image of the collection is named in a
    JSON body. 404 where the collection has learnt nothing from such grades: `cbir grade fit` does that.
    """
    here = current_state()
    named: list[str] = []
    with here.concurrency.admit():
        if request.mimetype == request_params.JSON:
            by_id = request_params.request_parameters(GradeById)
            name, named = by_id.collection, [by_id.image_id]
            with here.concurrency.slot():
                grader = here.graders.get(here.searcher(name).collection, by_id.grade_column)
                found = grader.by_id(by_id.image_id)
        else:
            data = request_params.uploaded_file(here.settings)
            wanted = request_params.request_parameters(GradeByImage)
            name = wanted.collection
            with here.concurrency.slot():
                grader = here.graders.get(here.searcher(name).collection, wanted.grade_column)
                image = request_params.decode_upload(here.settings, data, wanted, Deadline())
                found = grader.by_image(image, wanted.exclude_patient)
    neighbours = [neighbour for neighbour in (found.lighter, found.severer) if neighbour]
    for neighbour in neighbours:
        record = here.searcher(name).collection.record(neighbour.image_id)
        neighbour.links = links_of_record(here.settings, record, name)
    log_images([*named, *(neighbour.image_id for neighbour in neighbours)])
    return Response(found.model_dump_json(), mimetype="application/json")
