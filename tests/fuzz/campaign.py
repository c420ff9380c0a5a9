"""Feed random bytes to everything that reads bytes from outside.

    make fuzz SECONDS=3600
    python -m tests.fuzz.campaign --seconds 3600 --results bench/results/fuzz.md

Each target (tests/fuzz/targets.py) runs in a process of its own on changed files of tests/fuzz/corpus, and may raise
the documented errors alone. The kernel bounds the memory of the process and ends it if an input takes too long. An
input that breaks a rule is written to the folder of --findings; add it to the corpus with the fix.
"""

import argparse
import mmap
import os
import platform
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from tests.fuzz.mutations import mutate
from tests.fuzz.targets import MEBIBYTE, TARGETS, Function, FuzzTarget

CORPUS = Path(__file__).with_name("corpus")
MOST_FINDINGS = 20  # of a target, then it ends
Finding = tuple[str, bytes]
GROWTH = 256 * MEBIBYTE  # of a process whose memory the kernel does not bound
# Inputs tried, growth of memory, length of the current input, seconds; then the input.
HEAD = struct.Struct("<QQQd")


@dataclass
class Outcome:
    """Outcome of fuzzing a target. memory: largest growth of a process, bytes. findings: inputs by place."""

    target: FuzzTarget
    inputs: int = 0
    seconds: float = 0.0
    memory: int = 0
    findings: dict[str, bytes] = field(default_factory=dict)


def main() -> None:
    """Fuzz all targets in turn; exit code 1 if there is a finding."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--results", type=Path, help="Markdown file for the table")
    options = parser.parse_args()
    outcomes = []
    for name in options.targets:
        outcomes.append(fuzz(TARGETS[name], options.seconds / len(options.targets), options.seed))
        print(row(outcomes[-1]), flush=True)
        for number, (place, data) in enumerate(outcomes[-1].findings.items()):
            options.findings.mkdir(exist_ok=True)
            file = options.findings / f"{name}-{number}"
            file.write_bytes(data)
            print(f"{file}: {place}", file=sys.stderr)
    table = summary(outcomes, options.seed)
    print(table)
    if options.results:
        options.results.write_text(f"# Fuzzing\n\n{__doc__}\n{table}\n")
    sys.exit(any(outcome.findings for outcome in outcomes))


def fuzz(target: FuzzTarget, seconds: float, seed: int = 0) -> Outcome:
    """Try the corpus of a target, then changed files of it, for some seconds; starting it does not count."""
    outcome = Outcome(target)
    while outcome.seconds < seconds and len(outcome.findings) < MOST_FINDINGS:
        if not run_process(outcome, seconds - outcome.seconds, f"{seed}/{outcome.inputs}"):
            break
    return outcome


def run_process(outcome: Outcome, seconds: float, seed: str) -> bool:
    """Fuzz in a new process until the time is over, or an input ends it; False if it does not even start."""
    context = get_context("spawn")
    with tempfile.NamedTemporaryFile() as shared:
        shared.truncate(HEAD.size + outcome.target.longest)
        findings = context.SimpleQueue()
        arguments = outcome.target, shared.name, seconds, seed, outcome.inputs == 0, findings
        process = context.Process(target=fuzz_process, args=arguments)
        process.start()
        while process.is_alive() or not findings.empty():
            while not findings.empty():
                place, data = findings.get()
                outcome.findings.setdefault(place, data)
            process.join(0.2)
        state = Path(shared.name).read_bytes()
    inputs, memory, length, elapsed = HEAD.unpack_from(state)
    outcome.inputs += inputs
    outcome.seconds += elapsed
    outcome.memory = max(outcome.memory, memory)
    if process.exitcode:
        reason = "took too long" if process.exitcode == -signal.SIGALRM else f"ended with {process.exitcode}"
        outcome.findings[f"the process {reason} ({len(outcome.findings)})"] = state[
            HEAD.size : HEAD.size + length
        ]
    return inputs > 0


def fuzz_process(
    target: FuzzTarget, shared: str, seconds: float, seed: str, first: bool, findings: "SimpleQueue[Finding]"
) -> None:
    """Fuzz a target in this process.

    Parameters
    ----------
    target : FuzzTarget
        The target.
    shared : str
        File for the current input and the counts, which outlives the process.
    seconds : float
        Time to take, once the target has started.
    seed : str
        Of all random choices.
    first : bool
        Try the corpus as it is first.
    findings : SimpleQueue
        Receives pairs of a place and an input.
    """
    rng, corpus = random.Random(seed), read_corpus(target.name)
    with open(shared, "r+b") as file, mmap.mmap(file.fileno(), 0) as state, target.open() as function:
        silence()
        for data in corpus:  # what is loaded by now does not count as memory of an input
            attempt(function, data, findings)
        before, started = peak_memory(), time.monotonic()
        bound_memory(target)
        signal.signal(
            signal.SIGALRM, signal.SIG_DFL
        )  # ends the process: code in C would not return to Python
        number, queue, elapsed = 0, list(corpus) if first else [], 0.0
        while number == 0 or elapsed < seconds:
            data = (
                queue.pop()
                if queue
                else mutate(rng.choice(corpus), corpus, target.words, target.longest, rng)
            )
            number += 1
            head = HEAD.pack(number, peak_memory() - before, len(data), elapsed)
            state[: HEAD.size + len(data)] = head + data
            signal.setitimer(signal.ITIMER_REAL, target.seconds)
            attempt(function, data, findings)
            signal.setitimer(signal.ITIMER_REAL, 0)
            elapsed = time.monotonic() - started
        growth = peak_memory() - before
        state[: HEAD.size] = HEAD.pack(number, growth, len(data), elapsed)
        if growth > max(target.memory, GROWTH):
            findings.put((f"the process grew by {growth // MEBIBYTE} MiB", data))


def silence() -> None:
    """Discard what libraries in C print about damaged files."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)


def attempt(function: Function, data: bytes, findings: "SimpleQueue[Finding]") -> None:
    """Try an input, and report what it raises."""
    try:
        function(data)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} in {Path(last.filename).name}, {last.name}: {str(error)[:100]}"
        findings.put((place, data))


def read_corpus(name: str) -> list[bytes]:
    """Return the files of a target's corpus, in order of name."""
    return [file.read_bytes() for file in sorted((CORPUS / name).iterdir())]


def peak_memory() -> int:
    """Return the largest resident size of this process so far, bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def bound_memory(target: FuzzTarget) -> None:
    """Let the kernel refuse this process more memory than the target may take, where it tells the size."""
    status = Path("/proc/self/status")
    if target.memory and status.exists():
        size = next(
            int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if "VmSize" in line
        )
        resource.setrlimit(resource.RLIMIT_AS, (size + target.memory, size + target.memory))


def row(outcome: Outcome) -> str:
    """Return a row of the table."""
    rate = outcome.inputs / outcome.seconds if outcome.seconds else 0.0
    return (
        f"| {outcome.target.name} | {outcome.inputs:,} | {rate:,.0f} | {len(outcome.findings)} "
        f"| {outcome.memory / MEBIBYTE:.0f} |"
    )


def summary(outcomes: list[Outcome], seed: int) -> str:
    """Return a Markdown table, one row a target."""
    lines = [
        "| target | inputs | a second | findings | growth of memory, MiB |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    lines += [row(outcome) for outcome in outcomes]
    inputs, seconds = (
        sum(outcome.inputs for outcome in outcomes),
        sum(outcome.seconds for outcome in outcomes),
    )
    findings = sum(len(outcome.findings) for outcome in outcomes)
    lines.append(f"| all | {inputs:,} | {inputs / max(seconds, 1):,.0f} | {findings} | |")
    system = f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return "\n".join(lines) + f"\n\n{seconds / 60:.0f} minutes in one process, seed {seed}. {system}."


if __name__ == "__main__":
    main()
