"""Endpoints that show administrators the state of the service: collections, requests, health and settings."""

import platform
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import version

from flask import Blueprint, Response
from pydantic import BaseModel, ConfigDict, Field

import cbir
from cbir.errors import CbirError
from cbir.ingest.memory_limit import resident_memory
from cbir.settings import Settings
from cbir.store import DatabaseError
from service.access.auth import access_control
from service.client import admin_messages as messages
from service.client.messages import CollectionInfo
from service.collections.app_state import current_state
from service.collections.mounted_collection import CollectionHandle
from service.http.operations import json_response, operation
from service.http.request_params import query_parameters
from service.routes.health_routes import collection_state
from service.routes.request_history import KEPT_DAYS, request_history
from service.state.database import state_database

LIBRARIES = ("numpy", "faiss-cpu", "onnxruntime", "pydicom", "SQLAlchemy", "Flask", "pydantic")
PASSWORD = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]*@")  # in an address

blueprint = Blueprint("admin", __name__, url_prefix="/v1/admin")


class RequestHistoryParameters(BaseModel):
    """Days to show."""

    model_config = ConfigDict(extra="forbid")

    days: int = Field(30, ge=1, le=KEPT_DAYS, description="Number of days, today included.", examples=[30])


@blueprint.get("/collections")
@operation("collection_states", {200: messages.CollectionStatusList}, python="client.collection_states()")
def get_administered_collections() -> Response:
    """Describe all collections of the service.

    Those that cannot be opened have their problem as `state`, and no facts.
    """
    items = [_collection(handle) for handle in current_state().collections.values()]
    return json_response(messages.CollectionStatusList(items=items))


def _collection(handle: CollectionHandle) -> messages.CollectionStatus:
    status = messages.CollectionStatus(
        name=handle.name, folder=None, state=collection_state(handle), info=None, changed=None
    )
    with suppress(CbirError, DatabaseError):  # its state says why
        collection = handle.whole_searcher().collection
        status.info = CollectionInfo(name=handle.name, **collection.info())
        status.folder = handle.folder.name if handle.is_alias else None
        last = collection.history(None, 1)
        status.changed = last[0].at if last else None
    return status


@blueprint.get("/requests")
@operation(
    "request_history",
    {200: messages.RequestCounts},
    query=RequestHistoryParameters,
    problems=(422,),
    python="client.request_history(days=7)",
)
def get_requests() -> Response:
    """Count the requests of the last days by action, re-ranking method and outcome.

    The counts name no caller and no image. They are kept for 400 days.
    """
    counts = request_history().load(query_parameters(RequestHistoryParameters).days)
    items = [
        messages.RequestCount(**key._asdict(), count=counts[key])
        for key in sorted(sorted(counts), key=lambda key: key.day, reverse=True)
    ]
    return json_response(messages.RequestCounts(items=items))


@blueprint.get("/health")
@operation("service_health", {200: messages.ServiceHealth}, python="client.service_health()")
def get_health() -> Response:
    """Report the health of the service.

    It has the states of its parts, disks, memory, the queue of requests, and versions.
    """
    state = current_state()
    versions = {
        "cbir": cbir.__version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    return json_response(
        messages.ServiceHealth(
            parts=list(_parts()),
            disks=list(_disks()),
            memory_bytes=resident_memory(),
            started=state.started,
            working=state.concurrency.working,
            threads=state.settings.threads,
            waiting=state.concurrency.waiting,
            queue=state.concurrency.queue,
            versions=versions | {name.lower(): version(name) for name in LIBRARIES},
        )
    )


def _parts() -> Iterator[messages.ServicePart]:
    control, state = access_control(), current_state()
    for name, handle in state.collections.items():
        yield messages.ServicePart(name=f"collection {name}", state=collection_state(handle))
    yield messages.ServicePart(
        name="tokens", state=_state_of(control.tokens.all) if control.required else "off"
    )
    audit = "ok" if control.audit and control.audit.is_writable() else "it cannot be written"
    yield messages.ServicePart(name="audit log", state=audit if control.audit else "off")
    yield messages.ServicePart(name="state database", state=_state_of(state_database().check))
    yield messages.ServicePart(name="hospital login", state="ok" if control.account_login else "off")


def _state_of(check: Callable[[], object]) -> str:
    try:
        check()
    except CbirError as error:
        return str(error)
    return "ok"


def _disks() -> Iterator[messages.DiskSpace]:
    """Yield the disks of the folders that the service writes to, each once."""
    seen = set()
    for folder in current_state().folders().values():
        with suppress(OSError):
            device = folder.stat().st_dev
            if device not in seen:
                seen.add(device)
                usage = shutil.disk_usage(folder)
                yield messages.DiskSpace(folder=str(folder), free_bytes=usage.free, total_bytes=usage.total)


@blueprint.get("/settings")
@operation("settings", {200: messages.SettingList}, python="client.settings()")
def get_settings() -> Response:
    """Show the settings in force and their origins.

    They are those of the start of the service; passwords in addresses are hidden.
    """
    state = current_state()
    values = state.settings.model_dump(mode="json")
    items = [
        messages.SettingInfo(
            name=name,
            value=_text(values[name]),
            origin=state.origins[name],
            description=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    ]
    return json_response(messages.SettingList(items=items))


def _text(value: object) -> str:
    """Return a value as text, without passwords in addresses."""
    text = "" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return hide_password(text)


def hide_password(text: str) -> str:
    """Return `text` with *** in place of the password of an address."""
    return PASSWORD.sub(r"\1:***@", text)
