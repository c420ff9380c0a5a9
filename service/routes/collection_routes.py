"""Endpoints of collections: names, contents, labels, series, profile, statistics, history, and of the re-rankers."""

from typing import Annotated, Any, Literal

from flask import Blueprint, Response
from pydantic import Field

from cbir import rerank
from cbir.errors import NotFound
from cbir.rerank.feedback import Feedback
from cbir.rerank.several_examples import takes_several_examples
from service.access.audit import log_images
from service.client import collection_messages as messages
from service.client.image_messages import (
    DicomGroupInfo,
    DicomGroupPage,
    LabelFacet,
    LabelFacets,
    LabelValueCount,
    LabelValuePage,
)
from service.client.messages import RerankerInfo, RerankerList, RerankerParameter
from service.collections.app_state import current_state
from service.http import request_params, responses
from service.http.operations import json_response, operation
from service.http.request_params import query_parameters
from service.http.responses import page_that_fits
from service.http.timeouts import query_deadline
from service.routes.image_routes import (
    CollectionParameters,
    ImageListParameters,
    PageParameters,
    requested_collection,
)

blueprint = Blueprint("collection", __name__, url_prefix="/v1")
KeyInPath = Annotated[str, Field(description="Key of the label.", examples=["modality"])]


class HistoryParameters(PageParameters):
    """Page of the changes."""


@blueprint.get("/collections")
@operation("collections", {200: messages.CollectionNames}, python="client.collections()")
def get_collections() -> Response:
    """List the names of the collections.

    They are those that the caller may use; every `collection` parameter takes one of them.
    """
    state = current_state()
    names = state.visible_names()
    if not names:
        raise NotFound("this caller may use none of the collections of this service")
    return json_response(messages.CollectionNames(collections=names, default=names[0]))


@blueprint.get("/collection")
@operation(
    "collection", {200: messages.CollectionInfo}, query=CollectionParameters, python="client.collection()"
)
def get_collection() -> Response:
    """Describe a collection.

    The facts are its number of images, profile, label keys, and size and state on disk.
    """
    handle = current_state().handle(query_parameters(CollectionParameters).collection)
    return json_response(messages.CollectionInfo(name=handle.name, **handle.searcher().collection.info()))


@blueprint.get("/collection/profile")
@operation("profile", {200: messages.ProfileInfo}, query=CollectionParameters, python="client.profile()")
def get_profile() -> Response:
    """Describe the profile of a collection.

    It decides how images become comparable vectors, and holds the parameters of re-rankers.
    """
    _, collection = requested_collection()
    collection.reload_profile()
    profile = collection.profile
    descriptor = profile.load_descriptor()
    parts = {part.name: part.stop - part.start for part in descriptor.parts}
    facts: dict[str, Any] = {"hash": profile.hash, "dimensions": descriptor.dimensions, "parts": parts}
    facts["components"] = profile.components if profile.is_projected else None
    return json_response(messages.ProfileInfo(**profile.model_dump() | facts))


@blueprint.get("/collection/statistics")
@operation(
    "statistics",
    {200: messages.CollectionStatistics},
    query=CollectionParameters,
    python="client.statistics()",
)
def get_statistics() -> Response:
    """Count images, patients, formats and labels.

    The response also has the normalisation of the vectors.
    """
    _, collection = requested_collection()
    counts = messages.CollectionStatistics(normalisation=None, **collection.counts())
    if fitted := collection.statistics():
        counts.normalisation = messages.Normalisation(
            fitted_on=fitted.fitted_on,
            components=fitted.components,
            version=fitted.version,
            mean=fitted.mean.tolist(),
            scale=fitted.scale.tolist(),
        )
    return json_response(counts)


@blueprint.get("/collection/history")
@operation("history", {200: messages.ChangePage}, query=HistoryParameters, python="next(client.history())")
def get_history() -> Response:
    """List the changes of a collection, newest first.

    Each has its author, time and kind. Changes name images, never patients.
    """
    params = query_parameters(HistoryParameters)
    before = int(params.cursor) if params.cursor else None
    changes = current_state().searcher(params.collection).collection.history(before, params.limit + 1)
    page = changes[: params.limit]
    for change in page:
        log_images(change.image_ids)
    items = [
        messages.ChangeRecord(**(change.__dict__ | {"image_ids": list(change.image_ids)})) for change in page
    ]
    following = str(page[-1].change) if len(changes) > len(page) else None
    return json_response(messages.ChangePage(items=items, next=following))


class LabelKeyParameters(CollectionParameters):
    """Images whose labels count."""

    where: request_params.Where = Field(default=[])


class LabelValueParameters(ImageListParameters):
    """Page of the values of the images that meet conditions."""


@blueprint.get("/labels")
@operation("labels", {200: LabelFacets}, query=LabelKeyParameters, problems=(504,), python="client.labels()")
def get_labels() -> Response:
    """List the label keys with their numbers of images and of values, and the number of images.

    With `where`, the labels of the images that meet the conditions.
    """
    state, params = current_state(), request_params.query_parameters(LabelKeyParameters)
    collection = state.searcher(params.collection).collection
    with state.concurrency.admit(), state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        conditions = collection.conditions(params.where)
        keys, images = collection.list_label_keys(conditions), collection.count(conditions)
    return json_response(LabelFacets(images=images, items=[LabelFacet(**key._asdict()) for key in keys]))


@blueprint.get("/labels/<path:key>")
@operation(
    "label_values",
    {200: LabelValuePage},
    query=LabelValueParameters,
    problems=(504,),
    python='client.label_values("modality")',
)
def get_label_values(key: KeyInPath) -> Response:
    """List the values of a label with their numbers of images, the most frequent first, page by page.

    With `where`, the values of the images that meet the conditions; the totals are theirs too. A key that no image
    has is refused.
    """
    state, params = current_state(), request_params.query_parameters(LabelValueParameters)
    collection, offset = state.searcher(params.collection).collection, int(params.cursor or 0)
    with state.concurrency.admit(), state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        conditions = collection.conditions(params.where)
        facts = collection.list_label_values(key, conditions, offset, params.limit)._asdict()
    items = [LabelValueCount(**item._asdict()) for item in facts.pop("items")]
    end = offset + len(items)
    return json_response(
        LabelValuePage(**facts, items=items, next=str(end) if end < facts["values"] else None)
    )


class SeriesParameters(ImageListParameters):
    """Page of the studies or series with images that meet conditions."""

    level: Literal["series", "study"] = Field(
        default="series", description="What is listed: `series`, the default, or `study`.", examples=["study"]
    )


@blueprint.get("/series")
@operation(
    "series",
    {200: DicomGroupPage},
    query=SeriesParameters,
    problems=(504,),
    python='client.series(level="study")',
)
def get_series() -> Response:
    """List the DICOM series or studies of a collection with their numbers of images, page by page.

    The one whose first image was added last comes first. The images of one are listed by `images` with its UIDs.
    """
    state, params = current_state(), request_params.query_parameters(SeriesParameters)
    collection, before = state.searcher(params.collection).collection, int(params.cursor or 0) or None
    with state.concurrency.admit(), state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        conditions = collection.conditions(params.where)
        groups = collection.dicom_groups(params.level, before, params.limit + 1, conditions)
        page = groups[: params.limit]
        middle = [group.middle for group in page]
        records, bare = collection.bounded_records_by_id(middle, responses.MAX_ANSWER_LABELS)
    page = [group for group in page if group.middle not in bare]
    page = page_that_fits(page, lambda group: records[group.middle].labels if group.middle in records else {})
    log_images(group.middle for group in page if group.middle in records)
    items = [
        DicomGroupInfo(
            study=group.study,
            series=group.series,
            images=group.images,
            image_id=group.middle,
            labels=records[group.middle].labels,
        )
        for group in page
        if group.middle in records  # else deleted meanwhile
    ]
    following = str(page[-1].first) if len(groups) > len(page) else None
    return json_response(DicomGroupPage(items=items, next=following))


@blueprint.get("/rerankers")
@operation("rerankers", {200: RerankerList}, python="client.rerankers()")
def get_rerankers() -> Response:
    """List the re-rankers with their parameters, defaults and bounds.

    `auto` is not among them: it stands for the one that is chosen for the collection. The profile of a collection
    may have other defaults.
    """
    methods: tuple[Any, ...] = (*rerank.RERANKERS, Feedback)
    items = [
        RerankerInfo(
            name=method.name,
            title=method.title,
            description=method.description,
            one_example=method is not Feedback,
            several_examples=method is Feedback or takes_several_examples(method),
            parameters=[RerankerParameter(**vars(info)) for info in method.parameter_infos()],
            paper=dict(method.paper),
        )
        for method in methods
    ]
    return json_response(RerankerList(default=current_state().settings.rerank, items=items))
