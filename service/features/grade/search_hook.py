"""The grade of a query in the answer to its search, so that the file is sent once."""

from cbir.errors import CbirError, InvalidInput, NotFound, UnreadableImage
from cbir.learn.grade import Grade
from cbir.search import Answer, record_links
from service.access.audit import log_images
from service.collections.uploads import describe_upload
from service.features.grade.routes import grader_cache
from service.http.problems import SourceGone
from service.http.search_parameters import ByImage, SearchBody
from service.http.timeouts import query_deadline
from service.routes.search_hooks import HookedSearch, SearchHook

NAME = "grade"
NOT_GRADED: tuple[type[CbirError], ...] = (InvalidInput, NotFound, SourceGone, UnreadableImage)


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
    neighbours = [neighbour for neighbour in (grade.lighter, grade.severer) if neighbour]
    for neighbour in neighbours:
        record = collection.record(neighbour.image_id)
        neighbour.links = record_links(state.settings, record).in_collection(params.collection)
    log_images([neighbour.image_id for neighbour in neighbours])
    return grade


HOOK = GradedSearches()
