"""Targets of the benchmarks under load: one that is missed is noticed."""

import pytest

from tests.benches import loaded

CONNECTIONS = {
    "search_seconds": 1.0,
    "health_seconds": 0.1,
    "pss_mib": 500.0,
    "survived": True,
    "failed": 0,
}
DECODING = {"search": {"overhead ms": 1.0}, "index": {"overhead %": 1.0}, "service": {"peak MiB": 1500}}


@pytest.mark.parametrize(
    "missed",
    [{"search_seconds": 5.1}, {"health_seconds": 2.1}, {"pss_mib": 2100}, {"survived": False}, {"failed": 1}],
)
def test_targets_of_connections(missed: dict[str, float]) -> None:
    bench = loaded("connections")
    assert bench.reaches_targets(CONNECTIONS)
    assert not bench.reaches_targets(CONNECTIONS | missed)


@pytest.mark.parametrize(
    "missed",
    [{"search": {"overhead ms": 2.1}}, {"index": {"overhead %": 3.1}}, {"service": {"peak MiB": 2100}}],
)
def test_targets_of_decoding(missed: dict[str, dict[str, float]]) -> None:
    bench = loaded("decoding")
    assert bench.reaches_targets(DECODING)
    assert not bench.reaches_targets(DECODING | missed)
