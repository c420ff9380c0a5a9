"""A cluster on this machine is started again when Ray gives up, as it does on a busy machine."""

import pytest

from indexer.ray_cluster.ray_connection import init_cluster


class Failing:
    """Fails so many times."""

    def __init__(self, failures: int) -> None:
        self.failures, self.calls = failures, 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls <= self.failures:
            raise RuntimeError(f"failure {self.calls}")


@pytest.mark.parametrize(("failures", "calls"), [(0, 1), (2, 3)])
def test_a_start_is_tried_again(failures: int, calls: int) -> None:
    start = Failing(failures)
    init_cluster(start, 3)
    assert start.calls == calls


@pytest.mark.parametrize("tries", [1, 3])
def test_the_last_failure_is_the_reason(tries: int) -> None:
    with pytest.raises(RuntimeError, match=f"failure {tries}"):
        init_cluster(Failing(9), tries)
