"""Turns go to callers in a fair order, and one caller cannot take all places from others."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from service.http import concurrency
from service.http.concurrency import FairTurns, NoTurn


class Crowd:
    """Threads that take turns; each keeps its place until it is told to end."""

    def __init__(self, turns: FairTurns) -> None:
        self.turns, self.order = turns, []
        self._ends: list[threading.Event] = []
        self._threads: list[threading.Thread] = []

    def add(self, caller: str) -> int:
        """Let one more ask for a turn; return its number."""
        end, number = threading.Event(), len(self._ends)
        self._ends.append(end)
        thread = threading.Thread(target=self._work, args=(caller, number, end))
        thread.start()
        self._threads.append(thread)
        while number not in self.order and not any(w.caller == caller for w in self.turns._waiters):
            time.sleep(0.001)
        time.sleep(0.01)
        return number

    def end(self, number: int) -> None:
        """End a turn, and wait until the next one has begun."""
        self._ends[number].set()
        self._threads[number].join(10)
        time.sleep(0.02)

    def end_all(self) -> None:
        for end in self._ends:
            end.set()
        for thread in self._threads:
            thread.join(10)

    def _work(self, caller: str, number: int, end: threading.Event) -> None:
        with self.turns.turn(caller):
            self.order.append(number)
            end.wait(10)


@contextmanager
def crowd(places: int) -> Iterator[Crowd]:
    everyone = Crowd(FairTurns(places))
    try:
        yield everyone
    finally:
        everyone.end_all()
    assert everyone.turns.working == 0


def test_one_caller_alone_has_all_places_in_order() -> None:
    with crowd(2) as everyone:
        for _ in range(5):
            everyone.add("a")
        assert everyone.order == [0, 1]
        everyone.end(1)
        everyone.end(0)
        assert everyone.order == [0, 1, 2, 3]


def test_another_caller_goes_before_those_who_came_first() -> None:
    with crowd(2) as everyone:
        for _ in range(10):
            everyone.add("many")
        other = everyone.add("other")
        everyone.end(0)
        assert everyone.order == [0, 1, other]


def test_a_place_stays_free_for_others_who_were_here_lately(monkeypatch: pytest.MonkeyPatch) -> None:
    with crowd(2) as everyone:
        everyone.end(everyone.add("other"))
        for _ in range(3):
            everyone.add("many")
        assert everyone.order == [0, 1]
        everyone.end(everyone.add("other"))
        assert everyone.order == [0, 1, 4]
        monkeypatch.setattr(concurrency, "RECENT_SECONDS", 0.01)
        everyone.end(1)
        assert everyone.order[:3] == [0, 1, 4]
        assert set(everyone.order[3:]) == {2, 3}  # both have begun


def test_callers_share_the_only_place_in_turn() -> None:
    with crowd(1) as everyone:
        numbers = [everyone.add(name) for name in ("a", "a", "a", "b", "b", "c")]
        for _ in numbers:
            everyone.end(everyone.order[-1])
        assert everyone.order == [0, 3, 5, 1, 4, 2]


def test_waiting_ends_in_time_or_with_its_check() -> None:
    turns = FairTurns(1)
    with turns.turn("a"):
        started = time.monotonic()
        with pytest.raises(NoTurn), turns.turn("b", wait_seconds=0.15):
            raise AssertionError("the place is occupied")
        assert time.monotonic() - started < 10

        def leave() -> None:
            raise ConnectionAbortedError

        with pytest.raises(ConnectionAbortedError), turns.turn("b", leave):
            raise AssertionError("the place is occupied")
    with turns.turn("b", leave):
        assert turns.working == 1
    assert turns.working == 0


def test_turns_before_count_as_fairness_orders_them() -> None:
    with crowd(2) as everyone:
        for _ in range(12):
            everyone.add("many")
        assert everyone.turns.before("many") == 12
        assert everyone.turns.before("other") == 2
        everyone.add("other")
        assert everyone.turns.before("other") == 2 + 2


def test_places_are_free_after_errors() -> None:
    turns = FairTurns(2)
    with ExitStack() as stack:
        stack.enter_context(turns.turn("a"))
        for _ in range(3):
            with pytest.raises(ZeroDivisionError), turns.turn("b"):
                raise ZeroDivisionError
        assert turns.working == 1
    assert turns.working == 0
