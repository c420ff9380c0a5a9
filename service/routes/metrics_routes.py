"""Numbers of requests: Prometheus metrics at /metrics, which name no image or patient, and counts by day."""

import collections
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
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
from service.state.request_counts import CountKey, add_counts, load_counts
from service.state.schema import StateUnavailable

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
        self.registry.register(ServiceGauges(state))


def _by(label: str, name: str, text: str, values: Mapping[str, float]) -> Metric:
    """Return a metric with a value for each value of a label."""
    family = GaugeMetricFamily(name, text, labels=[label])
    for of, value in values.items():
        family.add_metric([of], value)
    return family


class ServiceGauges(Collector):
    """Collector that reads the current state of the app when it is scraped."""

    def __init__(self, state: AppState) -> None:
        self.state = state

    def collect(self) -> Iterator[Metric]:
        """Yield sizes of collections and their indexes, requests, jobs, failures of the GPU, and parts."""
        images, collections = dict[str, float](), self.state.collections
        for name, handle in collections.items():
            with suppress(CbirError, DatabaseError):
                images[name] = handle.image_count()
        ready = {name: float(name in images) for name in collections}
        yield _by("collection", "cbir_collection_images", "Images of a collection.", images)
        yield _by("collection", "cbir_collection_ready", "1 if the collection can be searched.", ready)
        yield from self._index_gauges()
        limit, jobs = self.state.concurrency, self.state.jobs.counts()
        yield GaugeMetricFamily("cbir_requests_working", "Requests at work.", limit.working)
        yield GaugeMetricFamily("cbir_queue_length", "Requests that wait for a thread.", limit.waiting)
        yield GaugeMetricFamily("cbir_queue_limit", "Requests that may wait.", limit.queue)
        yield _by("state", "cbir_jobs", "Jobs of all services by state.", jobs)
        failures = "Times that the GPU failed; with device=auto the CPU computes from the first one on."
        yield CounterMetricFamily("cbir_gpu_failures", failures, failure_count())
        yield from self._part_gauges()

    def _index_gauges(self) -> Iterator[Metric]:
        up, lag = dict[str, float](), dict[str, float]()
        for name, handle in self.state.collections.items():
            with suppress(CbirError, DatabaseError):
                if status := handle.index_status():
                    up[name] = float(status.problem is None)
                    if status.lacking is not None:
                        lag[name] = status.lacking
        text = "1 if the vector index of the collection answers."
        yield _by("collection", "cbir_index_up", text, up)
        yield _by(
            "collection", "cbir_index_lag", "Images of the collection that its vector index lacks.", lag
        )

    def _part_gauges(self) -> Iterator[Metric]:
        control = access_control()
        up = {part.name: float(not part.is_down()) for part in self.state.parts}
        if control.audit:
            up[AUDIT_LOG] = float(not control.audit_is_down())
            text = "Requests that are not in the audit log, which could not be written."
            yield CounterMetricFamily("cbir_audit_lines_lost", text, control.audit.lost)
        text = "1 if a part that the service depends on answers, and can be written."
        yield _by("part", "cbir_part_up", text, up)
        free = {content: free_bytes(folder) for content, folder in self.state.folders().items()}
        known = {content: left for content, left in free.items() if left is not None}
        yield _by("of", "cbir_disk_free_bytes", "Bytes free on a disk.", known)


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
