"""Counts and times for Prometheus, at /metrics. Labels name routes and collections, never an image or a patient."""

import time
from collections.abc import Iterator, Mapping

from flask import Blueprint, Flask, Response, current_app, g, request
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import DatabaseError

from cbir.errors import CbirError
from service.operations import operation
from service.state import State

EXTENSION = "cbir-metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

blueprint = Blueprint("metrics", __name__)


class Metrics:
    """The metrics of one app."""

    def __init__(self, here: State) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "cbir_requests", "Requests answered.", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "cbir_request_seconds", "Time of a request.", ("route",), buckets=SECONDS, registry=self.registry
        )
        self.stages = Histogram(
            "cbir_query_stage_seconds",
            "Time of a stage of a search.",
            ("stage",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.registry.register(Present(here))


class Present(Collector):
    """What is counted when it is asked for."""

    def __init__(self, here: State) -> None:
        self.here = here

    def collect(self) -> Iterator[Metric]:
        """Collection sizes, and how full the gate and the queue of jobs are."""
        images = GaugeMetricFamily("cbir_collection_images", "Images of a collection.", labels=["collection"])
        ready = GaugeMetricFamily(
            "cbir_collection_ready", "1 where a collection can be searched.", labels=["collection"]
        )
        for name, place in self.here.places.items():
            try:
                images.add_metric([name], len(place.searcher().collection.view()))
                ready.add_metric([name], 1)
            except (CbirError, DatabaseError):
                ready.add_metric([name], 0)
        yield images
        yield ready
        gate = self.here.gate
        yield GaugeMetricFamily("cbir_requests_working", "Requests being worked on.", gate.working)
        yield GaugeMetricFamily("cbir_queue_length", "Requests that wait for a thread.", gate.waiting)
        yield GaugeMetricFamily("cbir_queue_limit", "Requests that may wait.", gate.queue)
        jobs = GaugeMetricFamily("cbir_jobs", "Jobs by state.", labels=["state"])
        for name, count in self.here.jobs.counts().items():
            jobs.add_metric([name], count)
        yield jobs


def install(app: Flask, here: State) -> None:
    """Count the requests of `app`."""
    app.extensions[EXTENSION] = Metrics(here)
    app.before_request(_start)
    app.after_request(_count)


def observe_stages(timings_ms: Mapping[str, float]) -> None:
    """Book the stages of a search."""
    found: Metrics = current_app.extensions[EXTENSION]
    for stage, milliseconds in timings_ms.items():
        found.stages.labels(stage).observe(milliseconds / 1000)


@blueprint.get("/metrics")
@operation("metrics", {200: "text/plain"})
def metrics() -> Response:
    """Counts and times in Prometheus' text format."""
    found: Metrics = current_app.extensions[EXTENSION]
    return Response(generate_latest(found.registry), content_type=CONTENT_TYPE)


def _start() -> None:
    g.started = time.perf_counter()


def _count(response: Response) -> Response:
    found: Metrics = current_app.extensions[EXTENSION]
    route = request.url_rule.rule if request.url_rule else "none"
    method = request.method if request.url_rule else "any"  # else a client could make up as many as it likes
    found.requests.labels(method, route, str(response.status_code)).inc()
    if "started" in g:
        found.seconds.labels(route).observe(time.perf_counter() - g.started)
    return response
