"""A site that fails in a row is left alone, tried once, and asked again when it answers."""

from service.features.federation.site_client import CircuitBreaker


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_failures_in_a_row_open_it_and_one_request_tries() -> None:
    clock = Clock()
    circuit = CircuitBreaker(failures=3, pause=30, clock=clock)
    for _ in range(2):
        circuit.record(answered=False)
    circuit.record(answered=True)  # not in a row
    for _ in range(2):
        circuit.record(answered=False)
    assert circuit.seconds_to_wait() == 0
    circuit.record(answered=False)
    assert circuit.seconds_to_wait() == 30
    clock.now += 29
    assert circuit.seconds_to_wait() == 1
    clock.now += 1
    assert circuit.seconds_to_wait() == 0  # this one tries
    assert circuit.seconds_to_wait() == 30  # and others do not meanwhile
    circuit.record(answered=False)
    assert circuit.seconds_to_wait() == 30
    clock.now += 30
    assert circuit.seconds_to_wait() == 0
    circuit.record(answered=True)
    assert circuit.seconds_to_wait() == 0
    assert circuit.seconds_to_wait() == 0
