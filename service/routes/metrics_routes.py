"""Numbers of requests: Prometheus metrics at /metrics, which name no image or patient, and counts by day."""

import collections
import logging
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Lock
from typing import cast

from flask import Blueprint, Flask, Response, current_app, g, request
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cbir.errors import CbirError, StorageFull
from cbir.store import DatabaseError
from cbir.system.device_failure import failure_count
from cbir.system.files import free_bytes
from service.access import scopes
from service.access.auth import access_control
from service.collections.app_state import AppState
from service.collections.part_checks import AUDIT_LOG
from service.http.operations import operation
from service.state.database import StateDatabase
from service.state.errors import StateUnavailable
from service.state.request_counts import CountKey, add_counts, load_counts

EXTENSION = "cbir-metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

blueprint = Blueprint("metrics", __name__)
HISTORY = "cbir-request-history"
SAVE_SECONDS = 60.0
KEPT_DAYS = 400
REFUSALS = (401, 403, 429)

log = logging.getLogger(__name__)


class ServiceMetrics:
    """Metrics of one app."""

    def __init__(self, state: AppState) -> None:
        self.registry = CollectorRegistry()
        histogram = partial(Histogram, buckets=SECONDS, registry=self.registry)
        self.requests = Counter(
            "cbir_requests", "Responses sent.", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = histogram("cbir_request_seconds", "Duration of a request.", ("route",))
        self.stages = histogram("cbir_query_stage_seconds", "Duration of a stage of a search.", ("stage",))
        self.registry.register(CollectionGauges(state))
        self.registry.register(PartGauges(state))


class CollectionGauges(Collector):
    """Collector that reads the current state of the app when it is scraped."""

    def __init__(self, state: AppState) -> None:
        self.state = state

    def collect(self) -> Iterator[Metric]:
        """Yield sizes of collections, requests at work and waiting, jobs by state, and failures of the GPU."""
        images = GaugeMetricFamily("cbir_collection_images", "Images of a collection.", labels=["collection"])
        ready_text = "1 if the collection can be searched."
        ready = GaugeMetricFamily("cbir_collection_ready", ready_text, labels=["collection"])
        for name, handle in self.state.collections.items():
            try:
                images.add_metric([name], handle.image_count())
                ready.add_metric([name], 1)
            except (CbirError, DatabaseError):
                ready.add_metric([name], 0)
        yield images
        yield ready
        yield from self._index_gauges()
        limit = self.state.concurrency
        yield GaugeMetricFamily("cbir_requests_working", "Requests at work.", limit.working)
        yield GaugeMetricFamily("cbir_queue_length", "Requests that wait for a thread.", limit.waiting)
        yield GaugeMetricFamily("cbir_queue_limit", "Requests that may wait.", limit.queue)
        jobs = GaugeMetricFamily("cbir_jobs", "Jobs of all services by state.", labels=["state"])
        for name, count in self.state.jobs.counts().items():
            jobs.add_metric([name], count)
        yield jobs
        failures = "Times that the GPU failed; with device=auto the CPU computes from the first one on."
        yield CounterMetricFamily("cbir_gpu_failures", failures, failure_count())

    def _index_gauges(self) -> Iterator[Metric]:
        up_text = "1 if the vector index of the collection answers."
        up = GaugeMetricFamily("cbir_index_up", up_text, labels=["collection"])
        lag_text = "Images of the collection that its vector index lacks."
        lag = GaugeMetricFamily("cbir_index_lag", lag_text, labels=["collection"])
        for name, handle in self.state.collections.items():
            try:
                status = handle.index_status()
            except (CbirError, DatabaseError):
                continue
            if status:
                up.add_metric([name], int(status.problem is None))
            if status and status.lacking is not None:
                lag.add_metric([name], status.lacking)
        yield up
        yield lag


class PartGauges(Collector):
    """Collector of what the service depends on besides its collections: state, audit log, disks, archive."""

    def __init__(self, state: AppState) -> None:
        self.state = state

    def collect(self) -> Iterator[Metric]:
        """Yield whether each part works, lines that the audit log lacks, and the free space of disks."""
        control = access_control()
        up_text = "1 if a part that the service depends on answers, and can be written."
        up = GaugeMetricFamily("cbir_part_up", up_text, labels=["part"])
        for part in self.state.parts:
            up.add_metric([part.name], int(not part.is_down()))
        if control.audit:
            up.add_metric([AUDIT_LOG], int(not control.audit_is_down()))
            lost_text = "Requests that are not in the audit log, which could not be written."
            yield CounterMetricFamily("cbir_audit_lines_lost", lost_text, control.audit.lost)
        yield up
        free = GaugeMetricFamily("cbir_disk_free_bytes", "Bytes free on a disk.", labels=["of"])
        for content, folder in self.state.folders().items():
            if (left := free_bytes(folder)) is not None:
                free.add_metric([content], left)
        yield free


def install(app: Flask, state: AppState) -> None:
    """Count and time the requests of `app`; gauges show its `state`."""
    app.extensions[EXTENSION] = ServiceMetrics(state)
    app.before_request(_start)
    app.after_request(_count)


def observe_stages(timings_ms: Mapping[str, float]) -> None:
    """Record the stages of a search, in milliseconds by name."""
    metrics = _metrics()
    for stage, milliseconds in timings_ms.items():
        metrics.stages.labels(stage).observe(milliseconds / 1000)


@blueprint.get("/metrics")
@operation(
    "metrics",
    {200: "text/plain"},
    python="client.metrics()",
    examples={200: 'cbir_requests_total{method="POST",route="/v1/search",status="200"} 42.0\n'},
)
def get_metrics() -> Response:
    """Return all metrics in the text format of Prometheus.

    They count and time requests and stages of searches, and show sizes of collections, the queue and jobs. Labels
    name routes and collections, never images or patients.
    """
    return Response(generate_latest(_metrics().registry), content_type=CONTENT_TYPE)


def _metrics() -> ServiceMetrics:
    return cast(ServiceMetrics, current_app.extensions[EXTENSION])


def _start() -> None:
    g.started = time.perf_counter()


def _count(response: Response) -> Response:
    metrics = _metrics()
    route = request.url_rule.rule if request.url_rule else "none"
    method = request.method if request.url_rule else "any"  # else a client could invent any number of labels
    metrics.requests.labels(method, route, str(response.status_code)).inc()
    if "started" in g:
        metrics.seconds.labels(route).observe(time.perf_counter() - g.started)
    return response


class RequestHistory:
    """Numbers of requests by day. Thread-safe.

    Parameters
    ----------
    database : StateDatabase
        Database of the service's state.
    """

    def __init__(self, database: StateDatabase) -> None:
        self._database = database
        self._lock = Lock()
        self._unsaved: collections.Counter[CountKey] = collections.Counter()
        self._saved_at = time.monotonic()

    def count(self, action: str, method: str, status: int) -> None:
        """Count a request of today.

        Parameters
        ----------
        action : str
            Action of its address, see `service.access.scopes`.
        method : str
            Re-ranking method of a search; else "".
        status : int
            HTTP status of the response.
        """
        outcome = "refused" if status in REFUSALS else "failed" if status >= 400 else "done"
        with self._lock:
            self._unsaved[CountKey(_day(0), action, method, outcome)] += 1
            due = time.monotonic() - self._saved_at >= SAVE_SECONDS
            if due:
                self._saved_at = time.monotonic()
        if due:
            self._save()

    def _save(self) -> None:
        with self._lock:
            added, self._unsaved = self._unsaved, collections.Counter()
        try:
            if added:
                add_counts(self._database, added, _day(KEPT_DAYS))
        except (StateUnavailable, StorageFull) as error:
            log.warning("numbers of requests are not stored: %s", error)
            with self._lock:
                self._unsaved += added

    def load(self, days: int) -> dict[CountKey, int]:
        """Return the numbers of the last `days` days, today's included."""
        self._save()
        try:
            counts = collections.Counter(load_counts(self._database, _day(days - 1)))
        except (StateUnavailable, StorageFull):
            counts = collections.Counter()
        with self._lock:
            return counts + self._unsaved


def _day(ago: int) -> str:
    return (datetime.now(UTC) - timedelta(days=ago)).date().isoformat()


def install_history(app: Flask, database: StateDatabase) -> None:
    """Count the requests of `app` whose addresses have an action."""
    app.extensions[HISTORY] = RequestHistory(database)
    app.after_request(_count_request)


def request_history() -> RequestHistory:
    """Return the request history of the current app."""
    return cast(RequestHistory, current_app.extensions[HISTORY])


def note_method(name: str) -> None:
    """Note the re-ranking method of the search that the current request asks for."""
    g.rerank_method = name


def _count_request(response: Response) -> Response:
    rule = scopes.rule_of_request(request)
    if rule and rule.action:
        request_history().count(rule.action, g.get("rerank_method", ""), response.status_code)
    return response
