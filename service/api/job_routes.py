"""Jobs, and patients that are erased."""

import os
from pathlib import Path

from flask import Blueprint, Response, url_for

from cbir.errors import InvalidInput, NotFound
from cbir.paths import is_inside
from cbir.client.messages import Erased, JobInfo, JobList, JobRequest
from cbir.settings import Settings
from service.http import request_params
from service.access.audit import log_images, log_job
from service.api.image_routes import InCollection
from service.jobs import Job
from service.api.operations import operation
from service.http.problems import NotAllowed
from service.collections.app_state import state
from service.access.auth import actor_name

blueprint = Blueprint("jobs", __name__, url_prefix="/v1")


@blueprint.get("/jobs")
@operation("jobs", {200: JobList})
def jobs() -> Response:
    """The jobs since the service started, the newest first."""
    return _json(JobList(items=[job.info() for job in state().jobs.all()]))


@blueprint.post("/jobs")
@operation("index", {202: JobInfo}, body={request_params.JSON: JobRequest}, problems=(400, 404, 413, 415, 422))
def index() -> Response:
    """Index a folder of the server, below one of the setting `index_roots`. Jobs run one after the other."""
    request_params.require_json()
    here, wanted = state(), request_params.body(JobRequest)
    place = here.place(wanted.collection)
    folder = allowed(here.settings, wanted.folder)
    cores = len(os.sched_getaffinity(0))
    processes = wanted.processes if wanted.processes is not None else max(1, cores // 2)
    if not 1 <= processes <= cores:
        raise InvalidInput(f"processes: 1 to {cores}, not {processes}")
    arguments = ["--collection", str(place.folder), "--jobs", str(processes), "--who", actor_name()]
    if wanted.labels is not None:
        arguments += ["--labels", str(allowed(here.settings, wanted.labels))]
    for root in here.settings.index_roots:
        arguments += ["--within", root]
    arguments += ["--duplicates"] * wanted.duplicates + ["--restore"] * wanted.restore
    job = Job(folder, place.name, arguments, place.indexing)
    here.jobs.add(job)
    log_job(job.job)
    response = _json(job.info(), 202)
    response.headers["Location"] = url_for("jobs.job", name=job.job)
    return response


@blueprint.get("/jobs/<name>")
@operation("job", {200: JobInfo}, problems=(404,))
def job(name: str) -> Response:
    """How far a job has come."""
    return _json(state().jobs.get(name).info())


@blueprint.post("/jobs/<name>/cancel")
@operation("cancel", {202: JobInfo}, problems=(404, 409))
def cancel(name: str) -> Response:
    """End a job; what it has indexed so far stays, and indexing the folder again goes on from there."""
    jobs = state().jobs
    log_job(jobs.get(name).job)
    return _json(jobs.cancel(name).info(), 202)


@blueprint.delete("/patients/<key>")
@operation("erase_patient", {200: Erased}, query=InCollection, problems=(404, 422, 507))
def erase_patient(key: str) -> Response:
    """Remove every trace of a patient from every file of a collection, by the patient key of the images.

    The identifier that the key was made from is not taken: it would stand in logs of addresses.
    """
    here, name = state(), request_params.query(InCollection).collection
    if not request_params.PATIENT_KEY.fullmatch(key):
        raise InvalidInput("the key has 32 hexadecimal digits; the field patient_key of an image shows it")
    with here.place(name).writer(actor_name()) as writer:
        log_images(writer.images_of(key))
        erased = writer.erase_patient([key])
    here.thumbnails.clear()
    return _json(Erased(erased=erased))


def allowed(settings: Settings, asked_for: str) -> Path:
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
