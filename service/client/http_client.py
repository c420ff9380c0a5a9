"""Python client of the HTTP API; needs the extra `client`.

with Client("http://127.0.0.1:8000") as client:
    for hit in client.search("query.png", k=5):
        print(hit.rank, hit.id, hit.score)
"""

import time
from collections.abc import Iterator
from typing import Any, TypedDict, Unpack
from urllib.parse import quote

from cbir.store.records.filter_conditions import LabelConditions, write_conditions
from service.client import collection_messages as facts
from service.client import messages
from service.client.admin_messages import (
    CollectionStatus,
    CollectionStatusList,
    NewToken,
    RequestCount,
    RequestCounts,
    ServiceHealth,
    SettingInfo,
    SettingList,
    TokenInfo,
    TokenList,
)
from service.client.connection import ServiceConnection, ServiceError, ServiceUnreachable
from service.client.image_methods import DicomwebMethods, ImageMethods, ImageSetMethods
from service.client.search_methods import SearchMethods
from service.features.audit.client import AuditMethods, QuarantineMethods
from service.features.explain.client import ExplainMethods
from service.features.federation.client import FederationMethods
from service.features.grade.client import GradeMethods
from service.features.map.client import MapMethods
from service.features.saved.client import CaseMethods, CohortMethods
from service.features.similar.client import PriorMethods, SimilarMethods

__all__ = ["Client", "ServiceError", "ServiceUnreachable"]


class TokenOptions(TypedDict, total=False):
    """Options of a new token.

    name: owner or purpose. expires: 12h, 90d, 4w, a day like 2030-12-31, or never. collections: names of those
    that it may use, all by default. where: conditions of the images that it may see, all by default.
    """

    name: str
    expires: str
    collections: list[str]
    where: LabelConditions


class AdminMethods(ServiceConnection):
    """Mixin with the methods of `service.client.Client` that need the scope admin."""

    def tokens(self) -> list[TokenInfo]:
        """Return all tokens, newest first, without their secrets."""
        return self._fetch(TokenList, "GET", "/v1/admin/tokens", with_collection=False).items

    def create_token(self, scopes: list[str], **options: Unpack[TokenOptions]) -> NewToken:
        """Create a token with `scopes`; its text cannot be shown again. See `TokenOptions`."""
        body = {"scopes": scopes, **options}
        if "where" in options:
            body["where"] = write_conditions(options["where"])
        return self._fetch(NewToken, "POST", "/v1/admin/tokens", with_collection=False, json=body)

    def revoke_token(self, token_id: str, *, with_made: bool = False) -> TokenInfo:
        """Revoke a token at once, and end all logins made with it; `with_made`: also the tokens that it has made."""
        path = f"/v1/admin/tokens/{quote(token_id, safe='')}/revoke"
        params = {"with_made": "true"} if with_made else {}
        return self._fetch(TokenInfo, "POST", path, with_collection=False, params=params)

    def collection_states(self) -> list[CollectionStatus]:
        """Return all collections of the service, their facts and states."""
        path = "/v1/admin/collections"
        return self._fetch(CollectionStatusList, "GET", path, with_collection=False).items

    def request_history(self, *, days: int = 30) -> list[RequestCount]:
        """Return how many requests did what, by day, for the last `days` days."""
        params = {"days": days}
        path = "/v1/admin/requests"
        return self._fetch(RequestCounts, "GET", path, with_collection=False, params=params).items

    def service_health(self) -> ServiceHealth:
        """Return the states of the service's parts, disks, memory, queue and versions."""
        return self._fetch(ServiceHealth, "GET", "/v1/admin/health", with_collection=False)

    def settings(self) -> list[SettingInfo]:
        """Return the settings in force and their origins."""
        return self._fetch(SettingList, "GET", "/v1/admin/settings", with_collection=False).items


FINAL_STATES = ("done", "cancelled", "failed")


class IndexOptions(TypedDict, total=False):
    """Options of an indexing job.

    labels: path of a csv with labels on the server. duplicates: add images that are in the collection already.
    restore: add images that were deleted earlier. processes: number of processes; half the cores by default.
    """

    labels: str | None
    duplicates: bool
    restore: bool
    processes: int | None


class Client(
    AdminMethods,
    SearchMethods,
    ImageMethods,
    ImageSetMethods,
    MapMethods,
    AuditMethods,
    QuarantineMethods,
    CaseMethods,
    CohortMethods,
    DicomwebMethods,
    SimilarMethods,
    PriorMethods,
    ExplainMethods,
    GradeMethods,
    FederationMethods,
):
    """Client of one service. Thread-safe.

    Every method raises ServiceError for a problem response, ServiceUnreachable (an httpx.ConnectError) where no
    service listens, and another httpx.TransportError where the connection fails.
    """

    def __len__(self) -> int:
        """Return the number of images of the collection."""
        return self.collection().images

    def __bool__(self) -> bool:
        return True

    # The collection

    def collections(self) -> facts.CollectionNames:
        """Return the names of the collections."""
        return self._fetch(facts.CollectionNames, "GET", "/v1/collections", with_collection=False)

    def collection(self) -> facts.CollectionInfo:
        """Return facts about the collection."""
        return self._fetch(facts.CollectionInfo, "GET", "/v1/collection")

    def profile(self) -> facts.ProfileInfo:
        """Return the profile: descriptor, weights and re-ranking settings."""
        return self._fetch(facts.ProfileInfo, "GET", "/v1/collection/profile")

    def statistics(self) -> facts.CollectionStatistics:
        """Return counts of images, patients, formats and labels."""
        return self._fetch(facts.CollectionStatistics, "GET", "/v1/collection/statistics")

    def history(self, *, limit: int = 100) -> Iterator[facts.ChangeRecord]:
        """Iterate over the changes of the collection, newest first, `limit` per request."""
        yield from self._all_items(facts.ChangePage, "/v1/collection/history", {"limit": limit})

    # Jobs and patients

    def index(self, folder: str, **options: Unpack[IndexOptions]) -> facts.JobInfo:
        """Start a job that indexes a folder of the server, below one of index_roots; see `IndexOptions`."""
        body = {"folder": folder, "collection": self.collection_name, **options}
        return self._fetch(facts.JobInfo, "POST", "/v1/jobs", with_collection=False, json=body)

    def jobs(self) -> list[facts.JobInfo]:
        """Return the jobs, newest first, those from before the last start of the service too."""
        return self._fetch(facts.JobList, "GET", "/v1/jobs", with_collection=False).items

    def job(self, name: str) -> facts.JobInfo:
        """Return the state of a job."""
        return self._job("GET", name)

    def cancel(self, name: str) -> facts.JobInfo:
        """Cancel a job; images indexed so far stay."""
        return self._job("POST", name, "/cancel")

    def retry(self, name: str) -> facts.JobInfo:
        """Let a job that has failed or was cancelled wait again; it goes on where it stopped."""
        return self._job("POST", name, "/retry")

    def _job(self, method: str, name: str, action: str = "") -> facts.JobInfo:
        path = f"/v1/jobs/{quote(name, safe='')}{action}"
        return self._fetch(facts.JobInfo, method, path, with_collection=False)

    def wait(self, name: str, *, seconds: float = 3600.0, every: float = 0.5) -> facts.JobInfo:
        """Wait for a job to end.

        Parameters
        ----------
        name : str
            Name of the job.
        seconds : float
            Time limit.
        every : float
            Polling interval in seconds.

        Raises
        ------
        TimeoutError
            If the job has not ended within the time limit.
        """
        deadline = time.monotonic() + seconds
        while (job := self.job(name)).state not in FINAL_STATES:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the job {name} has not ended within {seconds:g} seconds")
            time.sleep(every)
        return job

    def erase_patient(self, key: str) -> messages.Erased:
        """Erase all data of a patient, by the patient key of the images."""
        return self._fetch(messages.Erased, "DELETE", f"/v1/patients/{quote(key, safe='')}")

    # The service

    def ready(self) -> messages.Readiness:
        """Return the readiness of the first collection for searching."""
        return self._fetch(messages.Readiness, "GET", "/readyz", with_collection=False)

    def health(self) -> messages.Health:
        """Return "ok" if the service answers."""
        return self._fetch(messages.Health, "GET", "/healthz", with_collection=False)

    def alive(self) -> messages.Health:
        """Return "ok" if the service answers; if this fails, restart the service."""
        return self._fetch(messages.Health, "GET", "/livez", with_collection=False)

    def metrics(self) -> str:
        """Return counters and timings in the Prometheus text format."""
        return self._request("GET", "/metrics", with_collection=False).text

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI 3.1 description of the API."""
        document: dict[str, Any] = self._request("GET", "/openapi.json", with_collection=False).json()
        return document
