"""Endpoints of indexing jobs, and DELETE /v1/patients."""

import os
from pathlib import Path
from typing import Annotated

from flask import Blueprint, Response, url_for
from pydantic import Field

from cbir.errors import InvalidInput, NotFound
from cbir.search import example_values as example
from cbir.settings import Settings
from cbir.store.erasure import erase_everywhere
from cbir.store.upkeep.archive_instances import images_with_pixels_of
from cbir.system.files import is_inside
from cbir.system.threads import cores
from indexer.index_progress import NAMING_FILES
from service.access.audit import log_fields, log_images
from service.access.caller import actor_name, has_admin_rights
from service.client.collection_messages import JobInfo, JobList, JobRequest, RefusedFile
from service.client.messages import Erased
from service.collections.app_state import current_state
from service.http.operations import json_response, operation
from service.http.problems import NotAllowed
from service.http.request_params import JSON, PATIENT_KEY, json_body, query_parameters
from service.jobs.job_queue import job_info
from service.jobs.job_work import new_index_job
from service.jobs.stored_jobs import JobRow
from service.routes.image_routes import CollectionParameters

blueprint = Blueprint("jobs", __name__, url_prefix="/v1")

JobName = Annotated[
    str, Field(description="Name of the job, field `job` of its description.", examples=[example.JOB])
]
PatientKeyInPath = Annotated[
    str,
    Field(
        description="Patient key: 32 hexadecimal digits, field `patient_key` of an image.",
        examples=[example.PATIENT_KEY],
    ),
]


@blueprint.get("/jobs")
@operation("jobs", {200: JobList}, python="client.jobs()")
def get_jobs() -> Response:
    """List the jobs, newest first, those of other services with the same state database too.

    Names of files and folders are shown to callers with the scope admin only, until a week after the end of the job.
    """
    names = current_state().visible_names()
    jobs = [job for job in current_state().jobs.all() if job.collection in names]
    return json_response(JobList(items=list(map(_job_info, jobs))))


@blueprint.post("/jobs")
@operation(
    "index",
    {202: JobInfo},
    body={JSON: JobRequest},
    problems=(422,),
    confirm="Index this folder into the collection?",
    python='client.index("/archive/2024")',
    collection_in_path=False,
)
def post_job() -> Response:
    """Index a folder of the server.

    It must be below one of the setting `index_roots`. Any service or `cbir admin worker` with the same state database
    that has the collection and the folder runs the job, the oldest first. The header `Location` is the address of the
    job.
    """
    state, body = current_state(), json_body(JobRequest)
    handle = state.handle(body.collection)
    folder = allowed_path(state.settings, body.folder)
    available = cores()
    if body.processes is not None and not 1 <= body.processes <= available:
        raise InvalidInput(f"processes: 1 to {available}, not {body.processes}")
    options = {
        "sources": [str(folder)],
        "labels": str(allowed_path(state.settings, body.labels)) if body.labels is not None else None,
        "processes": body.processes,
        "duplicates": body.duplicates,
        "restore": body.restore,
        "actor": actor_name(),
    }
    job = state.jobs.add(new_index_job(handle.name, handle.folder, options))
    log_fields(job=job.job)
    response = json_response(_job_info(job), 202)
    response.headers["Location"] = url_for("jobs.get_job", name=job.job)
    return response


@blueprint.get("/jobs/<name>")
@operation("job", {200: JobInfo}, python=f'client.job("{example.JOB}")')
def get_job(name: JobName) -> Response:
    """Show state and progress of a job.

    Poll it until `state` is done, cancelled or failed. If the process that runs it ends, another one goes on with it:
    at once, or half a minute later if the process was killed.
    """
    return json_response(_job_info(_requested_job(name)))


@blueprint.post("/jobs/<name>/cancel")
@operation(
    "cancel",
    {202: JobInfo},
    problems=(409,),
    confirm="Cancel this job?",
    python=f'client.cancel("{example.JOB}")',
)
def cancel_job(name: JobName) -> Response:
    """Cancel a job, at whichever service it runs: at once while it waits, else within seconds.

    Images that it has indexed stay, and indexing the folder again continues from there. 409 if the job has ended.
    """
    log_fields(job=_requested_job(name).job)
    return json_response(_job_info(current_state().jobs.cancel(name)), 202)


@blueprint.post("/jobs/<name>/retry")
@operation(
    "retry",
    {202: JobInfo},
    problems=(409,),
    confirm="Run this job again?",
    python=f'client.retry("{example.JOB}")',
)
def retry_job(name: JobName) -> Response:
    """Let a job that has failed or was cancelled wait again; it goes on where it stopped.

    409 if it has neither failed nor was cancelled, or its request is not stored any more, a week after its end.
    """
    log_fields(job=_requested_job(name).job)
    return json_response(_job_info(current_state().jobs.retry(name)), 202)


@blueprint.delete("/patients/<key>")
@operation(
    "erase_patient",
    {200: Erased},
    query=CollectionParameters,
    confirm="Erase every trace of this patient from the collection?",
    python=f'client.erase_patient("{example.PATIENT_KEY}")',
)
def delete_patient(key: PatientKeyInPath) -> Response:
    """Erase every trace of a patient from all files of a collection, by the patient key of the images.

    Saved cases whose query is of the patient are deleted, and the patient's images vanish from all others. The
    segmentations of the patient's images are deleted too.

    The identifier behind the key is not accepted, since addresses are written to logs.
    """
    state, name = current_state(), query_parameters(CollectionParameters).collection
    if not PATIENT_KEY.fullmatch(key):
        raise InvalidInput("the key has 32 hexadecimal digits; the field patient_key of an image holds it")
    handle = state.handle(name)
    try:
        with handle.writer(actor_name()) as writer:
            same_pixels = images_with_pixels_of(handle.searcher().collection, [key])
            log_images(writer.images_of(key))
            erased = erase_everywhere(writer, state.settings, [key])
    finally:  # also if the images are erased, and a feature failed after that
        state.thumbnails.clear()
    return json_response(Erased(erased=erased, with_the_same_pixels=same_pixels))


def _requested_job(name: str) -> JobRow:
    """Return the job `name`; raises NotFound, also for a job of a collection that the caller may not use."""
    job = current_state().jobs.get(name)
    if job.collection not in current_state().visible_names():
        raise NotFound(f"there is no job {name}")
    return job


def _job_info(job: JobRow) -> JobInfo:
    """Return a job as its caller may see it: names of files and folders, which may be of patients, as admin only."""
    info = job_info(job)
    if has_admin_rights():
        return info
    files = [RefusedFile(path="", reason=_without_name(file)) for file in info.refused_files]
    summary = info.summary and info.summary | {"collection": job.collection} | {
        name: [] for name in NAMING_FILES
    }
    error = info.error and "the job failed; the scope admin shows why"
    hidden = {"refused_files": files, "summary": summary, "error": error, "worker": None}
    return info.model_copy(update=hidden)


def _without_name(file: RefusedFile) -> str:
    """Return the reason for the refusal of a file, without its name."""
    return file.reason.replace(file.path, "the file").replace(os.path.basename(file.path), "the file")


def allowed_path(settings: Settings, path: str) -> Path:
    """Return the real path of the file or folder `path`, which must be below one of the `index_roots` of `settings`.

    Raises NotAllowed, and NotFound only for paths below a root.
    """
    if "\0" in path or not path.startswith("/"):
        raise InvalidInput("folder and labels must be absolute paths on the server")
    real = Path(os.path.realpath(path))
    if not is_inside(real, map(Path, settings.index_roots)):
        raise NotAllowed("the path is not below any of the folders in the setting index_roots")
    if not real.exists():
        raise NotFound("there is no such file or folder on the server")
    return real
