"""Endpoints of the other studies of a patient: of an image, and of a study in DICOM JSON."""

import json
from typing import Any

from flask import Blueprint, Response
from pydantic import Field

from cbir.errors import InvalidInput
from cbir.search import Hit, Searcher
from cbir.search import example_values as example
from cbir.search.dicom_levels import ImageGroup, Level
from cbir.search.prior_studies import PriorOrder, PriorRequest, PriorStudies, PriorStudy, find_priors
from cbir.store.external_links import compare_link, public_archive_url
from cbir.store.records.filter_conditions import DicomScope
from service.access.audit import log_images
from service.collections.app_state import current_state
from service.features.similar import dicom_json
from service.features.similar.messages import PriorAnswer, prior_message
from service.features.similar.routes import DICOM_JSON, UID, StudyUid, accepted_type
from service.http.operations import json_response, operation
from service.http.problems import Malformed
from service.http.request_params import Where, query_parameters
from service.http.responses import LabelBudget
from service.http.timeouts import query_deadline
from service.routes.image_routes import CollectionParameters, ImageIdInPath

MAX_STUDIES = 100
MAX_IMAGES = 20

blueprint = Blueprint("priors", __name__)


class PriorParameters(CollectionParameters):
    """Parameters of every search for other studies of a patient."""

    order: PriorOrder = Field(
        default=PriorOrder.likeness,
        description="Order of the studies, those of the same view first: likeness (the default), or time, the "
        "nearest in time first.",
        examples=["time"],
    )
    where: Where = Field(default=[])
    limit: int = Field(
        default=10,
        ge=1,
        le=MAX_STUDIES,
        description=f"Most studies, from 1 to {MAX_STUDIES}; 10 by default.",
        examples=[5],
    )


class ImagePriorParameters(PriorParameters):
    """Parameters of a search with an image."""

    images: int = Field(
        default=4,
        ge=1,
        le=MAX_IMAGES,
        description=f"Most images of a study, from 1 to {MAX_IMAGES}; 4 by default.",
        examples=[1],
    )


@blueprint.get("/v1/images/<image_id>/priors")
@operation(
    "priors",
    {200: PriorAnswer},
    query=ImagePriorParameters,
    problems=(504,),
    python=f'client.priors("{example.IMAGE_ID}")',
)
def get_priors(image_id: ImageIdInPath) -> Response:
    """List the other studies of the patient of an image: by view, then by likeness, with the days between them.

    Studies whose best image has the same modality, body part, view position and laterality, as far as labels say,
    come first. The study of the image is never among them. Without a known patient, or another study, the list is
    empty and `reason` says why.
    """
    params = query_parameters(ImagePriorParameters)
    request = PriorRequest(params.order, params.images, params.limit, tuple(params.where))
    priors, searcher = search_priors(image_id, params.collection, request)
    answer = prior_message(priors, searcher.settings, params.collection)
    LabelBudget().leave_out(image for study in answer.studies for image in study.images)
    return json_response(answer)


@blueprint.get("/dicomweb/studies/<study>/priors")
@operation(
    "priors_of_study",
    {200: DICOM_JSON, 204: None},
    query=PriorParameters,
    problems=(406, 504),
    python=f'client.priors_of_study("{example.STUDY_UID}")',
    examples={
        200: [
            {
                **dicom_json.EXAMPLE,
                "00771016": {"vr": "SL", "Value": [372]},
                "00771018": {"vr": "CS", "Value": ["YES"]},
            }
        ]
    },
)
def get_priors_of_study(study: StudyUid) -> Response:
    """List the other studies of the patient of a study, as DICOM JSON like that of QIDO-RS.

    At most 100 images of the study, evenly spread, are compared. The likeness is (0077,1001) of the private creator
    CBIR SIMILARITY, the days between the studies (0077,1016), the address of both in the viewer (0077,1017), and
    (0077,1018) says whether it is the same view. 204 if there is no other study; the header Warning says why.
    """
    media_type = accepted_type()
    try:
        if not UID.fullmatch(study):
            raise InvalidInput("the address: a UID has 1 to 64 digits and dots")
        params = query_parameters(PriorParameters)
        request = PriorRequest(params.order, 1, params.limit, tuple(params.where))
        priors, searcher = search_priors(DicomScope(study), params.collection, request)
    except InvalidInput as error:
        raise Malformed(str(error)) from error  # as QIDO-RS, PS3.18, 8.5
    datasets = _datasets(searcher, priors, params.collection)
    if not datasets:
        return Response(
            status=204, headers={"Warning": f'299 cbir "{priors.reason}"'} if priors.reason else {}
        )
    return Response(json.dumps(datasets), mimetype=media_type)


def search_priors(
    query: str | DicomScope, collection: str | None, request: PriorRequest
) -> tuple[PriorStudies, Searcher]:
    """Find the other studies of the patient of a query within the limits of the service; return the searcher too.

    Parameters
    ----------
    query, request
        As for `find_priors`.
    collection : str, optional
        Name of the collection; the caller's first one by default.
    """
    state = current_state()
    limit = state.concurrency
    with limit.admit(), limit.slot(), query_deadline(state.settings.query_seconds):
        searcher = state.searcher(collection)
        priors = find_priors(searcher, query, request)
    answered = (image.record.image_id for study in priors.studies for image in study.images)
    log_images([*(record.image_id for record in priors.queries), *answered])
    return priors, searcher


def _datasets(searcher: Searcher, priors: PriorStudies, collection: str | None) -> list[dict[str, Any]]:
    """Return a data set for each study; images that are not DICOM are left out."""
    studies = [study for study in priors.studies if study.study and study.best.record.instance]
    uids = {(study.study, study.best.record.series) for study in studies}
    counts = searcher.collection.study_counts(uids)
    archive = public_archive_url(searcher.settings)
    datasets = []
    for rank, study in enumerate(studies, 1):
        best = study.best
        hit = Hit.of_record(
            best.record, searcher.settings, rank=rank, score=best.likeness, distance=best.distance
        )
        match = dicom_json.QidoMatch(
            rank=rank,
            group=ImageGroup(best.likeness, study.count, hit),
            level=Level.study,
            record=best.record,
            counts=counts[study.study, best.record.series],
            archive=archive,
            thumbnail=hit.links.in_collection(collection).thumbnail,
        )
        dataset = dicom_json.qido_dataset(match, set()) | _prior_elements(searcher, study)
        datasets.append(dict(sorted(dataset.items())))
    return datasets


def _prior_elements(searcher: Searcher, study: PriorStudy) -> dict[str, Any]:
    """Return the private attributes of a study that is compared with another; those that are known."""
    view = {True: "YES", False: "NO", None: None}[study.best.same_view]
    values = (
        ("00771016", "SL", study.days_before),
        ("00771017", "UR", compare_link(searcher.settings, study.best.query.study, study.study)),
        ("00771018", "CS", view),
    )
    return {tag: {"vr": vr, "Value": [value]} for tag, vr, value in values if value is not None}
