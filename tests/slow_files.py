"""Files of tests that `make check` leaves out: `python -m tests.slow_files` measures them, on an idle machine."""

import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LIST = TESTS / "slow_files.txt"
SECONDS = 0.05  # of the processor, for a test in the mean of its file
OTHERS = "not e2e and not deep and not pacs and not ray"  # these are left out anyway


def slow_files() -> set[str]:
    """Return the paths in the list, below tests/."""
    return set(LIST.read_text(encoding="utf-8").split())


class ProcessorTimes:
    """A plugin of pytest that adds up the processor's time of each file's tests, fixtures and processes included."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Time one test."""
        before = sum(os.times()[:4])
        result = yield
        self.seconds[item.path.relative_to(TESTS).as_posix()].append(sum(os.times()[:4]) - before)
        return result


def main() -> None:
    """Run the tests and write the list."""
    times = ProcessorTimes()
    if pytest.main(["--quiet", "-m", OTHERS], plugins=[times]):
        sys.exit("some tests failed: the list stays as it was")
    slow = [name for name, each in sorted(times.seconds.items()) if sum(each) / len(each) > SECONDS]
    LIST.write_text("".join(f"{name}\n" for name in slow), encoding="utf-8")


if __name__ == "__main__":
    main()
