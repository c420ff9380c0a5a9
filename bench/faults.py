"""Let calls that write fail, and check what is left of a collection.

    python bench/faults.py --count 10000 --results bench/results/faults.md

An operation (add, delete, compact, backup, erase, ...) runs in a process in which the n-th call of the system that
writes below the collection's folder fails: once, or with all later ones (EIO, ENOSPC, EROFS); writes half; or is the
last before the process is killed. Other runs are traced, and power cuts simulated: data that were not synced are lost
in any order. Then nothing that was acknowledged may be lost, nothing deleted come back, and the collection must open
and be in order (`verify`). After a call that failed once the same process must add another image; after a quarter of
all faults a new process must, and compact the collection.
"""

import argparse
import errno
import itertools
import json
import os
import platform
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from reliability import shim
from reliability.collection_checks import check_folder, use_again
from reliability.ledger import Step
from reliability.power_cut import Disk, read_trace
from reliability.shim import Mode, Shim
from reliability.workloads import OPERATIONS, add_last, base_ledger, make_base, working

from cbir.api.main import error_advice
from cbir.errors import CbirError
from cbir.store.views import snapshot_build

CUT_SHARE = 0.3  # of all faults
USED_SHARE = 0.25  # of the collections are written to after a fault
CUTS_OF_A_RUN = 20
ERRORS = errno.EIO, errno.ENOSPC, errno.EROFS
FAULTS = [
    *itertools.product((Mode.once, Mode.always), ERRORS),
    *((mode, 0) for mode in (Mode.short, Mode.kill, Mode.torn)),
]
SECONDS = 60  # for one operation


class Fault(NamedTuple):
    """Operation and the fault in it. number: of the call, from 1. error: errno."""

    operation: str
    number: int
    mode: Mode
    error: int

    def __str__(self) -> str:
        error = f" {errno.errorcode[self.error]}" if self.error else ""
        return f"{self.operation}, call {self.number}: {self.mode.name}{error}"


class Run(NamedTuple):
    """Messages of a process, in order, and whether it came to its end."""

    messages: list[list[Any]]
    ended: bool


def main() -> None:
    """Run again with the preloaded library, then the campaign; exit code 1 if a fault left a problem."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000, help="faults in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--operations", nargs="+", choices=OPERATIONS, default=list(OPERATIONS))
    parser.add_argument("--results", type=Path, help="Markdown file for the table")
    parser.add_argument("--keep", type=Path, help="folder for copies of collections with problems")
    options = parser.parse_args()
    if shim.VARIABLE not in os.environ:
        if reason := shim.obstacle():
            raise SystemExit(reason)
        scratch = "/dev/shm" if Path("/dev/shm").is_dir() else None
        with tempfile.TemporaryDirectory(dir=scratch) as name:
            sys.exit(shim.run_preloaded(__file__, sys.argv[1:], Path(name)))
    snapshot_build.CODES_FROM = 1  # small snapshots have the files of large ones
    campaign = Campaign(Path(os.environ[shim.VARIABLE]), options)
    campaign.run()
    table = campaign.summary()
    print(table)
    if options.results:
        options.results.write_text(f"# Faults\n\n{__doc__}\n{table}\n")
    sys.exit(bool(campaign.problems))


class Campaign:
    """All faults of a run of this command. folder: for the collections."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.options = options
        self.rng = random.Random(options.seed)
        self.shim = Shim()
        self.folder, self.base, self.trace = folder / "work", folder / "base", folder / "trace"
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.problems: list[str] = []
        self.base.mkdir()
        make_base(self.base)

    def run(self) -> None:
        """Inject faults, and simulate power cuts; Ctrl-C ends that early."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            done, cuts, faults = 0, 0, self.faults()
            while done < self.options.count:
                if cuts < CUT_SHARE * done:
                    number = min(CUTS_OF_A_RUN, self.options.count - done)
                    self.cut_power(self.rng.choice(self.options.operations), number)
                    cuts += number
                else:
                    number = 1
                    self.inject(next(faults))
                done += number
                if done % 10 < number:
                    print(f"\r{done} of {self.options.count} faults", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)

    def faults(self) -> Iterator[Fault]:
        """Yield every fault of every operation, each kind in turn at calls in random order, again and again."""
        counts = {name: self.count_calls(name) for name in self.options.operations}
        calls = [(name, number) for name, count in counts.items() for number in range(1, count + 1)]
        while True:
            orders = [self.rng.sample(calls, len(calls)) for _ in FAULTS]
            for row in zip(*orders, strict=True):
                for (name, number), kind in zip(row, FAULTS, strict=True):
                    yield Fault(name, number, *kind)

    def count_calls(self, operation: str) -> int:
        """Return the number of calls of an operation without a fault."""
        self.prepare()
        run = self.run_operation(operation, 0, Mode.off, 0)
        if problems := self.check(run):
            raise SystemExit(f"{operation} fails without a fault: {problems}")
        return int(run.messages[-1][1])

    def prepare(self) -> None:
        """Begin with a copy of the base."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.base, self.folder)

    def inject(self, fault: Fault) -> None:
        """Run an operation with a fault, and check."""
        self.prepare()
        run = self.run_operation(fault.operation, fault.number, fault.mode, fault.error)
        kinds = {message[0] for message in run.messages}
        outcome = "killed" if not run.ended else "refused" if "refused" in kinds else "acknowledged"
        self.counts[fault.mode.name]["faults"] += 1
        self.counts[fault.mode.name][outcome] += 1
        self.report(fault.mode.name, str(fault), self.check(run))

    def cut_power(self, operation: str, cuts: int) -> None:
        """Trace an operation, and cut the power at some of its calls."""
        self.prepare()
        disk = Disk(self.folder)
        run = self.run_operation(operation, 0, Mode.off, 0, trace=True)
        calls = read_trace(self.trace)
        marks = [number for number, call in enumerate(calls, start=1) if call.kind == "K"]
        # Half of the cuts come just after something was acknowledged, or begun.
        moments = sorted(
            self.rng.choice(marks) if number % 2 else self.rng.randrange(len(calls) + 1)
            for number in range(cuts)
        )
        taken = 0
        for moment in moments:
            for call in calls[taken:moment]:
                disk.apply(call)
            taken = moment
            shutil.rmtree(self.folder)
            disk.after_cut(self.rng, self.folder)
            told = Run([json.loads(mark) for mark in disk.marks], ended=False)
            self.counts["power cut"]["faults"] += 1
            self.counts["power cut"]["killed"] += 1
            self.report(
                "power cut", f"{operation}, power cut after call {moment} of {len(calls)}", self.check(told)
            )
        if not run.ended:
            self.problems.append(f"{operation} does not end while it is traced")

    def report(self, kind: str, fault: str, problems: list[str]) -> None:
        """Count and print the problems after a fault."""
        if not problems:
            return
        self.counts[kind]["problems"] += 1
        self.problems.append(f"{fault}: {'; '.join(problems)}")
        print(f"\r{self.problems[-1]}", file=sys.stderr)
        if self.options.keep:
            shutil.copytree(self.folder, self.options.keep / str(len(self.problems)))

    def run_operation(self, operation: str, number: int, mode: Mode, error: int, trace: bool = False) -> Run:
        """Fork a process that runs an operation with a fault, and wait for its end."""
        seed = self.rng.randrange(2**32)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            self._operate(operation, Fault(operation, number, mode, error), seed, trace, writer)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            messages = [json.loads(line) for line in pipe]
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
            messages.append(["traceback", f"the process died of signal {os.WTERMSIG(status)}"])
        return Run(messages, status == 0)

    def _operate(self, operation: str, fault: Fault, seed: int, trace: bool, pipe: int) -> None:
        """Run in the forked process; never returns."""

        def send(*message: object) -> None:
            text = json.dumps(message)
            os.write(pipe, f"{text}\n".encode())
            self.shim.mark(text)

        def tell(word: str, step: Step) -> None:
            send(word, step.kind, step.ids, step.value)

        signal.alarm(SECONDS)
        try:
            self.shim.watch(self.folder)
            self.shim.trace(self.trace if trace else None)
            self.shim.arm(fault.number, fault.mode, fault.error)
            with working(self.folder, seed, tell) as worker:
                try:
                    OPERATIONS[operation](worker)
                finally:
                    calls = self.shim.calls
                    if fault.mode in (Mode.once, Mode.short):
                        self.shim.disarm()
                        add_last(worker)
            send("calls", calls)
        except Exception as problem:
            expected = isinstance(problem, CbirError) or error_advice(problem) is not None
            send("refused" if expected else "traceback", traceback.format_exc(limit=-4))
        os._exit(0)

    def check(self, run: Run) -> list[str]:
        """Return the problems of what a run left."""
        ledger, done = base_ledger(), set()
        for kind, *step in run.messages:
            if kind in ("begin", "done"):
                step_done = Step(step[0], tuple(step[1]), step[2])
                (ledger.begin if kind == "begin" else ledger.acknowledge)(step_done)
                if kind == "done":
                    done.add(step_done.kind)
        problems = [str(message[1]) for message in run.messages if message[0] == "traceback"]
        try:
            problems += check_folder(self.folder, ledger, done)
            if not problems and self.rng.random() < USED_SHARE:
                problems += use_again(self.folder, ledger)
            return problems
        except Exception:
            return [*problems, " ".join(traceback.format_exc(limit=-3).split())]

    def summary(self) -> str:
        """Return a Markdown table, one row a kind of fault."""
        columns = "faults", "acknowledged", "refused", "killed", "problems"
        lines = [f"| fault | {' | '.join(columns)} |", "| --- |" + " ---: |" * len(columns)]
        for kind, counts in self.counts.items():
            lines.append(f"| {kind} | {' | '.join(f'{counts[column]:,}' for column in columns)} |")
        total = sum(self.counts.values(), Counter())
        lines.append(f"| all | {' | '.join(f'{total[column]:,}' for column in columns)} |")
        system = f"{platform.system()}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
        return "\n".join(lines) + f"\n\nSeed {self.options.seed}. {system}."


if __name__ == "__main__":
    main()
