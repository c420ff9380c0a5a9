"""Jobs, and patients that are erased."""

import os
from pathlib import Path

from flask import Blueprint, Response, url_for

from cbir.client.messages import Erased, JobInfo, JobList, JobRequest
from cbir.errors import InvalidInput, NotFound
from cbir.paths import is_inside
from cbir.settings import Settings
from cbir.threads import cores
from service.access.audit import log_images, log_job
from service.access.auth import actor_name
from service.api.image_routes import CollectionParameters
from service.api.operations import operation
from service.collections.app_state import current_state
from service.http import request_params
from service.http.problems import NotAllowed
from service.ingest.index_jobs import Job

blueprint = Blueprint("jobs", __name__, url_prefix="/v1")


@blueprint.get("/jobs")
@operation("jobs", {200: JobList})
def get_jobs() -> Response:
    """The jobs since the service started, the newest first."""
    return _json(JobList(items=[get_job.info() for get_job in current_state().jobs.all()]))


@blueprint.post("/jobs")
@operation(
    "index", {202: JobInfo}, body={request_params.JSON: JobRequest}, problems=(400, 404, 413, 415, 422)
)
def post_job() -> Response:
    """Index a folder of the server, below one of the setting `index_roots`. Jobs run one after the other."""
    request_params.require_json()
    here, wanted = current_state(), request_params.json_body(JobRequest)
    place = here.handle(wanted.collection)
    folder = allowed_path(here.settings, wanted.folder)
    available = cores()
    processes = wanted.processes if wanted.processes is not None else max(1, available // 2)
    if not 1 <= processes <= available:
        raise InvalidInput(f"processes: 1 to {available}, not {processes}")
    arguments = ["--collection", str(place.folder), "--jobs", str(processes), "--who", actor_name()]
    if wanted.labels is not None:
        arguments += ["--labels", str(allowed_path(here.settings, wanted.labels))]
    for root in here.settings.index_roots:
        arguments += ["--within", root]
    arguments += ["--duplicates"] * wanted.duplicates + ["--restore"] * wanted.restore
    get_job = Job(folder, place.name, arguments, place.indexing)
    here.jobs.add(get_job)
    log_job(get_job.job)
    response = _json(get_job.info(), 202)
    response.headers["Location"] = url_for("jobs.get_job", name=get_job.job)
    return response


@blueprint.get("/jobs/<name>")
@operation("job", {200: JobInfo}, problems=(404,))
def get_job(name: str) -> Response:
    """How far a job has come."""
    return _json(current_state().jobs.get(name).info())


@blueprint.post("/jobs/<name>/cancel")
@operation("cancel", {202: JobInfo}, problems=(404, 409))
def cancel_job(name: str) -> Response:
    """End a job; what it has indexed so far stays, and indexing the folder again goes on from there."""
    get_jobs = current_state().jobs
    log_job(get_jobs.get(name).job)
    return _json(get_jobs.cancel(name).info(), 202)


@blueprint.delete("/patients/<key>")
@operation("erase_patient", {200: Erased}, query=CollectionParameters, problems=(404, 422, 507))
def delete_patient(key: str) -> Response:
    """Remove every trace of a patient from every file of a collection, by the patient key of the images.

    The identifier that the key was made from is not taken: it would stand in logs of addresses.
    """
    here, name = current_state(), request_params.query_parameters(CollectionParameters).collection
    if not request_params.PATIENT_KEY.fullmatch(key):
        raise InvalidInput("the key has 32 hexadecimal digits; the field patient_key of an image shows it")
    with here.handle(name).writer(actor_name()) as writer:
        log_images(writer.images_of(key))
        erased = writer.erase_patient([key])
    here.thumbnails.clear()
    return _json(Erased(erased=erased))


def allowed_path(settings: Settings, asked_for: str) -> Path:
    """The real path of a file or folder below an allowed root; raises NotAllowed, and NotFound below one only."""
    if "\0" in asked_for or not asked_for.startswith("/"):
        raise InvalidInput("folder and labels must be absolute paths on the server")
    real = Path(os.path.realpath(asked_for))
    if not is_inside(real, map(Path, settings.index_roots)):
        raise NotAllowed("the path lies below none of the folders that the setting index_roots allows")
    if not real.exists():
        raise NotFound("there is no such file or folder on the server")
    return real


def _json(model: JobInfo | JobList | Erased, status: int = 200) -> Response:
    return Response(model.model_dump_json(), status, mimetype=request_params.JSON)
