"""Eight workers at one queue: each job is claimed once, one of a lane at a time, the oldest of a lane first."""

import threading
import time
from collections import Counter

import pytest

from cbir import settings
from service.jobs.job_claims import claim_job, claimable_jobs, finish_job
from service.jobs.stored_jobs import count_jobs, load_jobs
from service.state.database import StateDatabase, open_state
from tests.service.state.test_job_claims import DONE, LONG_MS, add

pytestmark = pytest.mark.usefixtures("each_database")


def work_off(database: StateDatabase, log: list[tuple[str, str | None, str]], hold: float = 0.0) -> None:
    """Claim and finish jobs until all have ended, and log what was claimed and ended."""
    while True:
        candidates, lanes = claimable_jobs(database)
        for candidate in candidates:
            if candidate.lane in lanes:
                continue
            claimed = claim_job(database, candidate, threading.current_thread().name, LONG_MS)
            if claimed:
                log.append(("claimed", candidate.lane, candidate.job))
                time.sleep(hold)
                log.append(("ended", candidate.lane, candidate.job))
                assert finish_job(database, claimed, DONE)
                break
            lanes |= {candidate.lane} - {None}  # as workers do: else a younger job might overtake
        counts = count_jobs(database)
        if not counts["waiting"] + counts["running"]:
            return


@pytest.mark.slow
@pytest.mark.parametrize(("count", "lanes"), [(80, 0), (30, 3)])
def test_eight_workers_claim_each_job_once(count: int, lanes: int) -> None:
    first = open_state(settings.load())
    names = [add(first, f"lane {number % lanes}" if lanes else None) for number in range(count)]
    log: list[tuple[str, str | None, str]] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            work_off(open_state(settings.load()), log, 0.001 if lanes else 0.0)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors
    claimed = [name for what, _, name in log if what == "claimed"]
    assert sorted(claimed) == sorted(names)
    assert {row.state for row in load_jobs(first)} == {"done"}
    running: Counter[str | None] = Counter()
    for what, lane, _ in log:
        running[lane] += 1 if what == "claimed" else -1
        assert lane is None or running[lane] <= 1
    for lane in {lane for _, lane, _ in log} - {None}:  # the oldest of a lane first
        in_lane = [name for what, each, name in log if (what, each) == ("claimed", lane)]
        assert in_lane == [name for name in names if name in in_lane]
