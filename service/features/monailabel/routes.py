"""Addresses of MONAI Label's server below /monailabel: info, next sample, images, segmentations, and the login."""

import json
import time
from functools import partial
from typing import Any, Literal

from flask import Blueprint, Response, g, jsonify, request, send_file
from pydantic import Field
from werkzeug.exceptions import RequestEntityTooLarge

import cbir
from cbir.errors import InvalidInput
from cbir.ingest.decoder_tasks import render_choice
from cbir.store import Record
from cbir.store.external_links import public_archive_url, resource_url
from cbir.store.records.image_order import parse_order
from cbir.system.access_rights import Scope
from cbir.system.addresses import is_uid
from service.access.audit import log_images
from service.access.auth import access_control, check_failures, identify, unauthorized
from service.access.caller import actor_name, current_caller
from service.access.scopes import AccessRule, OpenTo
from service.access.sessions import make_ticket, ticket_image
from service.collections.app_state import AppState, current_state
from service.collections.image_sources import decode_source
from service.collections.label_limits import check_label_change, check_own_filter
from service.features.monailabel.choose_sample import (
    ANNOTATION,
    FINAL,
    STRATEGIES,
    AnnotatedImages,
    choose_sample,
)
from service.features.monailabel.segmentation_files import (
    annotation_folder,
    check_tag,
    find_segmentation,
    segmentation_suffix,
    segmentations,
    store_segmentation,
)
from service.http import request_bodies, request_params
from service.http.timeouts import query_deadline

MAX_SIDE = 4096  # pixels of an image to annotate; larger ones are reduced
MAX_OBJECTS = 1000  # images of the listing of all

RULES = {
    # Plugins of MONAI Label: active learning, and segmentations.
    "GET /monailabel/auth/": AccessRule(OpenTo.anyone),
    "POST /monailabel/auth/token": AccessRule(OpenTo.anyone, "login"),
    "GET /monailabel/auth/token/valid": AccessRule(OpenTo.any_token),
    "GET /monailabel/info/": AccessRule(Scope.search),
    "POST /monailabel/activelearning/*": AccessRule(Scope.search, "next-sample"),
    "GET /monailabel/datastore/": AccessRule(Scope.search, "list"),
    "GET /monailabel/datastore/image": AccessRule(Scope.search, "picture", ticket=True),
    "GET /monailabel/datastore/image/info": AccessRule(Scope.search, "record"),
    "GET /monailabel/datastore/label": AccessRule(Scope.search, "segmentation"),
    "PUT /monailabel/datastore/label": AccessRule(Scope.annotate, "save-segmentation"),
}
blueprint = Blueprint("monailabel", __name__, url_prefix="/monailabel")


class DatastoreParameters(request_params.Parameters):
    """Contents of the answer about the datastore."""

    output: Literal["all", "stats"] = "stats"


class SegmentationParameters(request_params.Parameters):
    """Segmentation to read."""

    label: str
    tag: str = FINAL


class SavedSegmentationParameters(request_params.Parameters):
    """Segmentation to store."""

    image: str
    tag: str = Field(default=FINAL)


class SampleImageParameters(request_params.Parameters):
    """Image to read."""

    image: str


@blueprint.get("/info/")
def get_info() -> Response:
    """Return what the plugins show: strategies, and how many images are annotated. There are no models."""
    state = current_state()
    with state.concurrency.admit(), state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        stats = _stats(state)
    nothing: dict[str, Any] = {"models": {}, "trainers": {}, "scoring": {}, "train_stats": {}, "labels": []}
    strategies = {name: {"description": description} for name, (description, _) in STRATEGIES.items()}
    about = {"name": "cbir", "description": "Next samples by image retrieval", "version": cbir.__version__}
    return jsonify(about | nothing | {"strategies": strategies, "datastore": stats})


@blueprint.post("/activelearning/<strategy>")
def post_activelearning(strategy: str) -> Response:
    """Return the image to annotate next, an empty object if all are annotated. Other fields are not used."""
    _json_object(
        request_bodies.read_body(request_bodies.MAX_JSON_BYTES, "a request").decode(errors="replace")
    )
    state = current_state()
    with state.concurrency.admit(), state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        record = choose_sample(strategy, state.searcher(None))
    if record is None:
        return jsonify({})
    log_images([record.image_id])
    return jsonify({"id": _sample_id(record), "path": "", **_image_info(state, record)})


@blueprint.get("/datastore/")
def get_datastore() -> Response:
    """Return how many images there are and are annotated, or with `output=all` a list of the first 1,000."""
    state = current_state()
    params = request_params.query_parameters(DatastoreParameters)
    with state.concurrency.admit(), state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        if params.output == "stats":
            return jsonify(_stats(state))
        collection = state.searcher(None).collection
        page = collection.sorted_page(parse_order("oldest"), None, MAX_OBJECTS)
    records = [record for _, record in page]
    log_images(record.image_id for record in records)
    objects = {record.image_id: _datastore_object(state, record) for record in records}
    return jsonify(
        {"name": "cbir", "description": "", "images_dir": "", "labels_dir": "", "objects": objects}
    )


@blueprint.get("/datastore/image")
def get_sample_image() -> Response:
    """Return an image as PNG, of at most 4,096 pixels a side, from its file.

    Plugins send no token here; the id that they were given lets them in for some minutes.
    """
    state, record = current_state(), _record(request_params.query_parameters(SampleImageParameters).image)
    with state.concurrency.admit():
        collection = state.searcher(None).collection
        picture = decode_source(state.decoders, collection, record, partial(render_choice, side=MAX_SIDE))
    response = Response(picture.data, mimetype="image/png")
    response.headers["Content-Disposition"] = f'attachment; filename="{record.image_id}.png"'
    return response


@blueprint.get("/datastore/image/info")
def get_sample_info() -> Response:
    """Return what a next sample says of an image."""
    record = _record(request_params.query_parameters(SampleImageParameters).image)
    return jsonify(_image_info(current_state(), record))


@blueprint.get("/datastore/label")
def get_segmentation() -> Response:
    """Return a stored segmentation."""
    params = request_params.query_parameters(SegmentationParameters)
    record = _record(params.label)
    path = find_segmentation(current_state().settings, record.image_id, check_tag(params.tag))
    response = send_file(path.resolve(), "application/octet-stream")
    name = f"{record.image_id}{path.name.removeprefix(params.tag)}"
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'  # clients look for the quotes
    return response


@blueprint.put("/datastore/label")
def put_segmentation() -> Response:
    """Store a segmentation; with the tag `final` the image counts as annotated, and is proposed no more."""
    state = current_state()
    params = request_params.query_parameters(SavedSegmentationParameters)
    tag = check_tag(params.tag or FINAL)
    annotation_folder(state.settings)  # before the body is read
    record = _record(params.image)
    if set(request.files) != {"label"}:
        raise InvalidInput("label: send one file in this field of a form (multipart/form-data)")
    file = request.files["label"]
    suffix, content = segmentation_suffix(file.filename or ""), file.read()
    if len(content) > state.settings.max_upload_bytes:
        raise RequestEntityTooLarge
    _json_object(request.form.get("params", ""))
    check_own_filter({ANNOTATION: tag})
    store_segmentation(state.settings, record.image_id, tag, suffix, content)
    if tag == FINAL:
        with state.handle(None).writer(actor_name()) as writer:
            labels: dict[str, str | None] = {ANNOTATION: tag}
            collection = state.handle(None).whole_searcher().collection
            writer.set_labels(
                record.image_id, labels, lambda: check_label_change(collection, [record.image_id], labels)
            )
    return jsonify({"image": record.image_id, "label": record.image_id})


@blueprint.get("/auth/")
def get_auth() -> Response:
    """Tell plugins whether to ask for a password: a token of cbir."""
    return jsonify({"enabled": access_control().required, "client_id": "cbir", "realm": None})


@blueprint.post("/auth/token")
def post_auth_token() -> Response:
    """Check the token that came as `password`, and return it as plugins expect; the user name is not used."""
    control = access_control()
    form = request_bodies.read_form()
    if not control.required:
        return jsonify({"access_token": None, "token_type": None})
    check_failures()
    token = form.get("password", "").strip()
    g.caller, refusal = identify(control, token)
    if refusal:
        return unauthorized(f"{refusal}; send a token of cbir as the password")
    return jsonify({"access_token": token, "token_type": "Bearer"})


@blueprint.get("/auth/token/valid")
def get_auth_token_valid() -> Response:
    """Return the name under which a valid token appears in logs."""
    return jsonify({"username": actor_name(), "roles": []})


def _record(text: str) -> Record:
    """Return the record of an id, or a ticket, that a client sent; note it for the audit log. Raises NotFound."""
    record = current_state().searcher(None).collection.record(ticket_image(text))
    log_images([record.image_id])
    return record


def _sample_id(record: Record) -> str:
    caller = current_caller()
    return make_ticket(record.image_id, caller.token.token_id) if caller and caller.token else record.image_id


def _stats(state: AppState) -> dict[str, Any]:
    collection = state.searcher(None).collection
    tags = AnnotatedImages(collection).tags()
    return {"total": collection.count(), "completed": sum(tags.values()), "label_tags": tags}


def _datastore_object(state: AppState, record: Record) -> dict[str, Any]:
    labels = segmentations(state.settings, record.image_id)
    return {
        "image": {"ext": ".png", "info": _image_info(state, record)},
        "labels": {tag: {"ext": suffix, "info": {}} for tag, suffix in labels.items()},
    }


def _image_info(state: AppState, record: Record) -> dict[str, Any]:
    """Return name and DICOM UIDs of an image; never a patient's identifier, name or dates."""
    info = {"name": f"{record.image_id}.png", "ts": int(time.time())}
    if record.study and record.series:
        info |= {
            "StudyInstanceUID": record.study,
            "SeriesInstanceUID": record.series,
            "SOPInstanceUID": record.instance,
            "Modality": record.labels.get("modality", "UNK"),
        }
        archive = public_archive_url(state.settings)
        if archive and is_uid(record.study) and is_uid(record.series):
            info["RetrieveURL"] = resource_url(archive, record.study, record.series)
    return info


def _json_object(text: str) -> dict[str, Any]:
    """Parse the parameters of a client, which may be empty; raises InvalidInput if they are no object."""
    try:
        parsed = json.loads(text or "{}")
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise InvalidInput("params: must be a JSON object")
    return parsed
