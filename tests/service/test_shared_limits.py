"""Limits of callers, counted over services that share their state."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import func, select, update

from cbir import settings
from service.access import rate_limits
from service.access.rate_limits import HOUR, PatientRate, RequestRate
from service.state.database import StateDatabase, open_state
from service.state.request_counts import (
    FULL_AGAIN,
    allowances,
    forget_full_allowances,
    name_patients,
    patient_names,
    spend_requests,
)
from service.state.schema import DatabaseTime
from tests.postgresql_server import PostgresqlServer

DOWN = "postgresql+psycopg://cbir@127.0.0.1:1/hospital"


@pytest.fixture
def database(postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch) -> StateDatabase:
    monkeypatch.setenv("CBIR_STATE_DATABASE", postgresql.new_schema())
    return open_state(settings.load())


def another() -> StateDatabase:
    return open_state(settings.load())


def age(database: StateDatabase, milliseconds: int) -> None:
    """Let the allowances be older."""
    with database.writing() as connection:
        connection.execute(update(allowances).values(at=allowances.c.at - milliseconds))


def test_allowances_are_spent_by_all_and_refilled_in_a_minute(database: StateDatabase) -> None:
    assert spend_requests(database, {"a": 10, "b": 1}, 60) == {"a": 50, "b": 59}
    assert spend_requests(another(), {"a": 60}, 60)["a"] == pytest.approx(-10, abs=1)
    age(database, 30_000)
    assert spend_requests(database, {"a": 1}, 60)["a"] == pytest.approx(19, abs=1)
    age(database, 300_000)
    assert spend_requests(database, {"a": 1}, 60) == {"a": 59}, "no more than an allowance is saved"


def test_services_spend_at_the_same_time(database: StateDatabase) -> None:
    spend_requests(database, {"a": 1}, 10**6)
    together, callers = Barrier(4), [f"caller {number}" for number in range(20)]

    def spend(order: int) -> None:
        own = another()
        together.wait()
        for _ in range(10):
            spend_requests(own, dict.fromkeys(callers[::order], 1), 10**6)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(spend, (1, -1, 1, -1)))
    left = spend_requests(database, dict.fromkeys(callers, 0), 10**6)
    assert set(left) == set(callers)
    age(database, -3_600_000)  # nothing is refilled between the two
    with database.reading() as connection:
        assert connection.execute(select(func.count()).select_from(allowances)).scalar_one() == 21


def test_unused_allowances_are_forgotten(database: StateDatabase) -> None:
    spend_requests(database, {"old": 1}, 60)
    age(database, FULL_AGAIN + 1000)
    spend_requests(database, {"new": 1}, 60)
    forget_full_allowances(database)
    with database.reading() as connection:
        assert connection.execute(select(allowances.c.caller)).scalars().all() == ["new"]


def test_a_caller_cannot_go_to_another_service(
    database: StateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limits, "EXCHANGE_SECONDS", 0.05)
    limit = 30
    one, other = (RequestRate(limit, database=store) for store in (database, another()))
    assert [one.seconds_to_wait("token a") for _ in range(limit + 1)].count(0) == limit
    end = time.monotonic() + 5
    while _remaining(database) > limit / 10:
        assert time.monotonic() < end, "the requests have not been stored"
        time.sleep(0.01)
    accepted = 0
    while not other.seconds_to_wait("token a"):
        accepted += 1
        assert time.monotonic() < end, "the other service has not heard of them"
        time.sleep(0.05)
    assert accepted < limit / 3
    assert not other.seconds_to_wait("token b")


def _remaining(database: StateDatabase) -> float:
    with database.reading() as connection:
        left = connection.execute(select(func.min(allowances.c.remaining))).scalar()
    return float("inf") if left is None else left


def test_without_the_database_each_service_counts_its_own(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("psycopg")
    down = open_state(settings.load(state_database=DOWN))
    rate = RequestRate(5, database=down)
    assert [bool(rate.seconds_to_wait("a")) for _ in range(7)] == [False] * 5 + [True] * 2
    patients = PatientRate(2, database=down)
    assert [bool(patients.seconds_to_wait("a", [key])) for key in "xyxz"] == [False, False, False, True]
    assert "counted at this service only" in caplog.text


def test_patients_are_counted_exactly_over_all(database: StateDatabase) -> None:
    one, other = PatientRate(3, database=database), PatientRate(3, database=another())
    assert one.seconds_to_wait("a", ["x", "y"]) == 0
    assert other.seconds_to_wait("a", ["y", "z"]) == 0
    assert HOUR - 5 < one.seconds_to_wait("a", ["w"]) <= HOUR
    assert other.seconds_to_wait("a", ["w", "x"]) > 0
    assert one.seconds_to_wait("a", ["x", "y", "z"]) == 0
    assert one.seconds_to_wait("b", ["w"]) == 0
    assert PatientRate(1, database=another(), name="identifiers").seconds_to_wait("a", ["w"]) == 0
    with database.reading() as connection:
        assert not {"w", "x", "y", "z"} & set(connection.execute(select(patient_names.c.patient)).scalars())


def test_patients_named_at_the_same_time(database: StateDatabase) -> None:
    rates = [PatientRate(5, database=another()) for _ in range(3)]
    with ThreadPoolExecutor(6) as pool:
        waits = list(pool.map(lambda n: rates[n % 3].seconds_to_wait("a", [f"patient {n}"]), range(18)))
    assert waits.count(0) == 5


def test_an_hour_later_patients_are_forgotten(database: StateDatabase) -> None:
    assert name_patients(database, "a", ["x", "y"], 2) == 0
    with database.writing() as connection:
        connection.execute(update(patient_names).values(at=DatabaseTime() - (HOUR - 10) * 1000))
    assert 5 < name_patients(database, "a", ["z"], 2) <= 10
    with database.writing() as connection:
        connection.execute(update(patient_names).values(at=DatabaseTime() - HOUR * 1000))
    assert name_patients(database, "a", ["z", "w"], 2) == 0
    assert name_patients(database, "b", ["v", "w", "x"], 2) == HOUR


def test_a_named_patient_costs_no_query(database: StateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    rate = PatientRate(3, database=database)
    assert rate.seconds_to_wait("a", ["x"]) == 0
    monkeypatch.setattr(rate_limits, "name_patients", lambda *_: pytest.fail("the database was asked"))
    assert rate.seconds_to_wait("a", ["x"]) == 0


def test_a_limit_holds_over_two_apps(indexed: Path, database: StateDatabase) -> None:
    from service.access.token_stores import Scope, SharedTokens
    from service.app import create_app

    active = settings.load(require_tokens=True, identifiers_per_hour=3)
    headers = {"Authorization": f"Bearer {SharedTokens(database).create([Scope.admin])[1]}"}
    clients = [create_app(indexed, active).test_client() for _ in range(2)]
    image = clients[0].get("/v1/images?limit=1", headers=headers).json["items"][0]["image_id"]
    sent = [
        clients[number % 2].post(
            "/v1/search", json={"image_id": image, "exclude_patient": str(number)}, headers=headers
        )
        for number in range(5)
    ]
    assert [answer.status_code for answer in sent] == [200, 200, 200, 429, 429]
