"""Endpoint POST /v1/grade, and the graders of open collections."""

from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from flask import Blueprint, Response, request
from pydantic import ConfigDict, Field

from cbir.errors import InvalidInput, NotFound
from cbir.learn.grade import Grade
from cbir.search import ImageId, record_links
from cbir.search import example_values as example
from cbir.store import Collection
from cbir.system.access_rights import Scope
from service.access.audit import log_images
from service.access.patient_identifiers import check_patient, patient_key
from service.access.scopes import AccessRule
from service.collections.app_state import AppState, current_state
from service.collections.uploads import describe_upload
from service.http import request_params
from service.http.operations import IMAGE_FILES, json_response, operation
from service.http.request_bodies import uploaded_file
from service.http.request_params import Rendering
from service.http.timeouts import query_deadline
from service.routes.image_routes import CollectionParameters

if TYPE_CHECKING:
    from cbir.learn.grading.grader import Grader

MAX_GRADERS = 64

RULES = {
    "POST /v1/grade": AccessRule(Scope.search, "grade"),
}
blueprint = Blueprint("grade", __name__, url_prefix="/v1")


class GraderCache:
    """Keeps the graders last used, one per collection, or limited view of it, and grade column. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._graders: OrderedDict[tuple[int, str], Grader] = OrderedDict()

    def get(self, collection: Collection, column: str | None) -> "Grader":
        """Return the grader of `collection` for the label `column`; None means the only one.

        Raises NotFound if the collection has no grade model for it, InvalidInput if there are several and `column`
        is None.
        """
        from cbir.learn.grading.grader import Grader  # imports scikit-learn: only for requests that grade

        columns = collection.graded_labels()
        if column is None and len(columns) > 1:
            raise InvalidInput(f"grade_column: one of {', '.join(columns)} is needed")
        if not columns or column not in (None, *columns):
            existing = f"; there are: {', '.join(columns)}" if columns else ""
            raise NotFound(
                f"the collection has no grade model for such grades; `cbir grade fit` fits one{existing}"
            )
        key = id(collection), column or columns[0]
        with self._lock:
            grader = self._graders.pop(key, None) or Grader(
                collection, key[1]
            )  # keeps the collection, and so its id
            self._graders[key] = grader
            if len(self._graders) > MAX_GRADERS:
                self._graders.popitem(last=False)
        return grader

    def forget(self, folder: Path) -> None:
        """Drop the graders of the collection in `folder`, and with them the collection."""
        with self._lock:
            for key in [key for key, grader in self._graders.items() if grader.collection.folder == folder]:
                del self._graders[key]


def grader_cache(state: AppState) -> GraderCache:
    """Return the graders of the collections of a service, as a part of its state."""
    cache = GraderCache()
    state.on_replaced.append(cache.forget)
    return cache


class GradeParameters(CollectionParameters):
    """Parameters of every grading."""

    grade_column: str | None = Field(
        default=None,
        max_length=100,
        description="Label that holds the grades; by default the only one with a model.",
        examples=["grade"],
    )


class GradeByImage(GradeParameters, Rendering):
    """Grade an uploaded image."""

    exclude_patient: str | None = Field(
        default=None,
        description="Patient key, whose images are left out of the list; with the scope admin also the identifier "
        "it was made from, but not in the query string, since addresses are written to logs.",
        examples=[example.PATIENT_KEY],
    )


class GradeById(GradeParameters):
    """Grade an image of the collection; images of its patient are excluded from the list."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"image_id": example.IMAGE_ID}]})

    image_id: ImageId = Field(description="Id of the image to grade.", examples=[example.IMAGE_ID])


@blueprint.post("/grade")
@operation(
    "grade",
    {200: Grade},
    body={request_params.JSON: GradeById, **IMAGE_FILES},
    form=GradeByImage,
    query=GradeByImage,
    problems=(504,),
    python='client.grade("query.png")',
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
            data = uploaded_file(state.settings)
            params = request_params.request_parameters(GradeByImage)
            check_patient(params.exclude_patient)
        collection = state.searcher(params.collection).collection
        grader = state.part(grader_cache).get(collection, params.grade_column)
        if isinstance(params, GradeByImage):
            side, encoder = grader.picture_side(), grader.other_encoder()
            query = describe_upload(state.decoders, collection, data, params, side, encoder)
        with state.concurrency.slot(), query_deadline(state.settings.query_seconds):
            if isinstance(params, GradeById):
                grade = grader.by_id(params.image_id)
            else:
                patient = patient_key(collection, params.exclude_patient)
                grade = grader.by_image(query, patient)
    neighbours = [neighbour for neighbour in (grade.lighter, grade.severer) if neighbour]
    for neighbour in neighbours:
        record = collection.record(neighbour.image_id)
        neighbour.links = record_links(state.settings, record).in_collection(params.collection)
    query_ids = [params.image_id] if isinstance(params, GradeById) else []
    log_images([*query_ids, *(neighbour.image_id for neighbour in neighbours)])
    return json_response(grade)
