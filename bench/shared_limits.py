"""Measure what limits and tokens in a shared state database add to a request, on a PostgreSQL server of this machine.

python -m bench.shared_limits [--requests 5000]
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable

import numpy as np

from cbir import settings
from cbir.system.access_rights import Scope
from service.access.rate_limits import PatientRate, RequestRate
from service.access.token_stores import SharedTokens
from service.state.database import open_state
from tests.postgresql_server import PostgresqlServer


def milliseconds(call: Callable[[int], object], count: int, pause: float = 0.0) -> dict[str, float]:
    """Median and 99th percentile of `count` calls, with a pause in seconds after each."""
    took = []
    for number in range(count):
        started = time.perf_counter()
        call(number)
        took.append((time.perf_counter() - started) * 1000)
        time.sleep(pause)
    return {"median": float(np.median(took)), "p99": float(np.percentile(took, 99))}


def measure(server: PostgresqlServer, requests: int) -> dict[str, dict[str, float]]:
    """Return the times by what is done."""
    database = open_state(settings.load(state_database=server.new_schema()))
    tokens = SharedTokens(database)
    sent = tokens.create([Scope.search])[1]
    alone, shared = RequestRate(10**6), RequestRate(10**6, database=database)
    patients = PatientRate(10**6, database=database)
    few = max(20, requests // 20)
    return {
        "request, limit of one service": milliseconds(lambda _: alone.seconds_to_wait("a"), requests, 0.001),
        "request, shared limit": milliseconds(lambda _: shared.seconds_to_wait("a"), requests, 0.001),
        "request, shared tokens": milliseconds(lambda _: tokens.find(sent), requests, 0.001),
        "patient named before": milliseconds(lambda _: patients.seconds_to_wait("a", ["same"]), requests),
        "new patient": milliseconds(lambda n: patients.seconds_to_wait("a", [str(n)]), few),
    }


def main() -> None:
    """Print a table and one JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=5000)
    options = parser.parse_args()
    server = PostgresqlServer()
    try:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_STATE_HOME"] = folder
            found = measure(server, options.requests)
    finally:
        server.stop()
    print(f"load {os.getloadavg()[0]:.1f}")
    for name, times in found.items():
        print(f"{name:32}{times['median']:9.4f} ms median{times['p99']:9.3f} ms p99")
    print(json.dumps({"bench": "shared_limits", "milliseconds": found}))


if __name__ == "__main__":
    main()
