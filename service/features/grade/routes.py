"""Grades of images: POST /v1/grade, grades that searches ask for, and the graders of open collections."""

from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Response, request
from pydantic import ConfigDict, Field

from cbir.errors import CbirError, InvalidInput, NotFound, UnreadableImage
from cbir.learn.grade import Grade
from cbir.search import Answer, ImageId, Searcher, record_links
from cbir.search import example_values as example
from cbir.settings import Settings
from cbir.store import Collection
from cbir.system.access_rights import Scope
from service.access.audit import log_images
from service.access.patient_identifiers import check_patient, patient_key
from service.access.scopes import AccessRule
from service.collections.app_state import AppState, current_state
from service.collections.uploads import describe_upload
from service.http import request_params
from service.http.operations import IMAGE_FILES, json_response, operation
from service.http.problems import SourceGone
from service.http.request_bodies import uploaded_file
from service.http.request_params import Rendering
from service.http.search_parameters import ByImage, SearchBody
from service.http.timeouts import query_deadline
from service.routes.image_routes import CollectionParameters
from service.routes.search_hooks import HookedSearch, SearchHook

if TYPE_CHECKING:
    from cbir.learn.grading.grader import Grader

MAX_GRADERS = 64
NAME = "grade"  # in `include` of a search
NOT_GRADED: tuple[type[CbirError], ...] = (InvalidInput, NotFound, SourceGone, UnreadableImage)

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
    neighbours = _link_neighbours(grade, collection, params.collection)
    log_images([*([params.image_id] if isinstance(params, GradeById) else []), *neighbours])
    return json_response(grade)


def _link_neighbours(grade: Grade, collection: Collection, name: str | None) -> list[str]:
    """Add the links of a grade's neighbours in the collection that a request names; return their ids."""
    neighbours = [neighbour for neighbour in (grade.lighter, grade.severer) if neighbour]
    for neighbour in neighbours:
        links = record_links(current_state().settings, collection.record(neighbour.image_id))
        neighbour.links = links.in_collection(name)
    return [neighbour.image_id for neighbour in neighbours]


class GradedSearches(SearchHook):
    """Adds the grade of a query, an upload or an image of the collection, that a search asks for."""

    includes = (NAME,)

    def complete(self, search: HookedSearch, answer: Answer) -> Answer:
        """Add the grade; None where there is no model, several, or the image is unlike those that are graded."""
        if NAME in search.params.include:
            try:
                answer.extras[NAME] = _grade(search)
            except NOT_GRADED:
                answer.extras[NAME] = None
        return answer


def _grade(search: HookedSearch) -> Grade | None:
    state, params, collection = search.state, search.params, search.searcher.collection
    image_id = params.image_id if isinstance(params, SearchBody) and not params.region else None
    if image_id is None and len(search.files) != 1:
        return None
    grader = state.part(grader_cache).get(collection, None)
    query = search.queries[0] if search.queries else None
    side, encoder = grader.picture_side(), grader.other_encoder()
    if isinstance(params, ByImage) and (side or encoder):
        query = describe_upload(state.decoders, collection, search.files[0], params, side, encoder)
    with state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        if image_id is not None:
            grade = grader.by_id(image_id)
        elif query is not None:
            grade = grader.by_image(query, search.request.exclude_patient_key)
        else:
            return None
    log_images(_link_neighbours(grade, collection, params.collection))
    return grade


HOOK = GradedSearches()


def grade_facts(searcher: Searcher, _settings: Settings) -> dict[str, Any]:
    """Return the labels that graders of a collection were trained on."""
    return {"columns": searcher.collection.graded_labels()}
