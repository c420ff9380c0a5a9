"""Write bench/results/gpu.md from the results of bench/gpu/run.sh; what was not measured is said row by row.

    python bench/gpu/report.py [RESULTS.jsonl ...] [--out bench/results/gpu.md]

Several files are runs on several cards, or of several commits; each has a section, the newest first.
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "results" / "gpu.md"
NOT_MEASURED = "not measured"
HEAD = """# On a GPU

    bash bench/gpu/prepare.sh                 # without a GPU: what the other machine lacks
    bash bench/gpu/run.sh                     # on the machine with the GPU, eight minutes
    python bench/gpu/report.py results.jsonl  # this page

Every figure of a GPU in the documents comes from here.
"""
SIZES = (1_000_000, 10_000_000)
METHODS = ("none", "auto", "eprf")
FAILURES = ("none", "memory", "kernels", "none_afterwards", "sticky")
Results = dict[str, dict[str, Any]]


def read(path: Path) -> Results:
    """Return what a run measured on a GPU by step; queries by method and number of images."""
    results: Results = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:  # the run ended while it wrote this line
            continue
        results[row["step"]] = row
    if "card" not in results.get("environment.card", {}):
        raise SystemExit(f"{path} is of a machine without a GPU: its figures are no GPU's")
    on_gpu = {name: row for name, row in results.items() if row.get("on", "cuda") == "cuda"}
    if results.get("faiss.device", {}).get("device") != "cuda":
        return {name: row for name, row in on_gpu.items() if not name.startswith("faiss.")}
    return on_gpu


def cell(results: Results, step: str, *names: str, form: str = "{}") -> str:
    """Return values of a step for a table: why there are none if it was not measured."""
    row = results.get(step, {})
    problem = row.get("failed") or row.get("skipped")
    if problem is None and all(name in row for name in names) and row:
        return ", ".join(form.format(row[name]) for name in names)
    reason = problem or _end_of_step(results, step)
    return f"{NOT_MEASURED}{f': {reason}' if reason else ''}".replace("|", "/").replace("\n", " ")


def _end_of_step(results: Results, row: str) -> str | None:
    """Return how the step of a row without figures ended, if that is known."""
    kind, *rest = row.split(".")
    name = kind
    if kind in ("queries", "copy"):
        name = "queries_1m" if rest[-1] == "1000000" else "queries_10m"
    step = results.get(name, {})
    if step.get("exit") == 124:
        return f"its step did not end in {step['seconds']} s"
    return step.get("skipped") or (f"its step ended with {step['exit']}" if step.get("exit") else None)


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    lines = [list(heads), ["---"] * len(list(heads)), *(list(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def queries(results: Results) -> str:
    """Return the table of searches."""
    forms = {"median_ms": "{:.2f}", "p95_ms": "{:.2f}", "cpu_ms": "{:.1f}", "same": "{:.1%}"}
    rows = [
        [
            f"{size:,}",
            f"`{method}`",
            *(cell(results, f"queries.{method}.{size}", name, form=form) for name, form in forms.items()),
        ]
        for size in SIZES
        for method in METHODS
    ]
    heads = ["images", "method", "median, ms", "p95, ms", "CPU, ms", "first 100 as the CPU's"]
    copies = [f"{size:,}: {cell(results, f'copy.{size}', 'seconds')}" for size in SIZES]
    return (
        f"{table(heads, rows)}\nSeconds of the first search, which copies the vectors: {'; '.join(copies)}.\n"
    )


# What each row of the tables says, the step that measured it, and the names of the values.
INDEX_ROWS = (
    ("recall of the nearest 100, 2,000, 5,000", "lists", ("recall_100", "recall_2000", "recall_5000")),
    ("ms a query, of 100, 2,000, 5,000: GPU", "lists", ("ms_100", "ms_2000", "ms_5000")),
    ("ms a query, of 100, 2,000, 5,000: CPU", "lists", ("cpu_ms_100", "cpu_ms_2000", "cpu_ms_5000")),
    ("seconds to copy the vectors", "lists", ("copy_seconds",)),
    ("filters obeyed, half and a third of the images", "lists", ("obeyed_half", "obeyed_third")),
    ("recall of 5,000 with these filters", "lists", ("recall_half", "recall_third")),
    ("ms a query with these filters", "lists", ("ms_half", "ms_third")),
    ("graph of neighbours: seconds, share of the nearest", "graph", ("seconds", "nearest")),
)
DESCRIPTION_ROWS = (
    ("images a second: GPU, CPU", ("cuda_per_second", "cpu_per_second")),
    ("largest difference, tolerance", ("largest_difference", "tolerance")),
)
ENCODER_ROWS = (
    ("images a second from arrays: GPU, CPU", ("cuda_per_second", "cpu_per_second")),
    ("least cosine between both, of so many images", ("least_cosine", "compared")),
    ("images a second from JPEG files: GPU, decoding alone, processes",
     ("files_per_second", "decoded_per_second", "processes")),
)  # fmt: skip
BOTH_DEVICES = (
    ("train an LSTM sorter, steps a second", "training.lstm", "steps_per_second"),
    ("train a CNN sorter, steps a second", "training.cnn", "steps_per_second"),
    ("train an embedding by sodeep-map, images a second", "training.sodeep-map", "images_per_second"),
    ("train an embedding by toprank, images a second", "training.toprank", "images_per_second"),
    ("train DenseNet-169 of side 224, pairs a second", "severity", "pairs_per_second"),
    ("severity by it, T = 30, images a second", "severity", "images_per_second"),
)


def index(results: Results) -> str:
    """Return the table of FAISS."""
    rows = [[text, cell(results, f"faiss.{step}", *names)] for text, step, names in INDEX_ROWS]
    return table(["FAISS, 1,000,000 vectors of 128 values", "measured"], rows)


def networks(results: Results) -> str:
    """Return the table of networks: description, training, severity."""
    rows = [
        [f"describe by the default encoder, {text}", cell(results, "description.encoder", *names)]
        for text, names in ENCODER_ROWS
    ]
    rows += [
        [f"describe by it in {precision}, images a second from arrays, least cosine",
         cell(results, f"description.{precision}", "per_second", "least_cosine")]
        for precision in ("float16", "float32")
    ]  # fmt: skip
    rows += [
        [f"describe with {backbone}, {text}", cell(results, f"description.{backbone}", *names)]
        for backbone in ("small", "resnet18", "lite0-max")
        for text, names in DESCRIPTION_ROWS
    ]
    for text, step, name in BOTH_DEVICES:
        both = (cell(results, f"{step}.{device}", name) for device in ("cuda", "cpu"))
        rows.append([f"{text}: GPU, CPU", ", ".join(both)])
    return table(["networks", "measured"], rows)


def failures(results: Results) -> str:
    """Return the table of failures, and of processes and threads."""
    rows = []
    for failure in FAILURES:
        for setting in ("auto",) if failure == "sticky" else ("auto", "cuda"):
            for work in ("search", "graph"):
                step = f"failures.{failure}.{setting}.{work}"
                said = "refused" if "refused" in results.get(step, {}) else "answered_by"
                rows.append([failure.replace("_", " "), setting, work, cell(results, step, said)])
    processes = [
        ["two processes: first, second", cell(results, "processes.owners", "first", "second")],
        ["second after kill -9 of the first", cell(results, "processes.owners", "second_after_kill")],
        ["eight threads: the same answers, searches a second alone and together",
         cell(results, "processes.threads", "same", "per_second", "per_second_of_eight")],
    ]  # fmt: skip
    first = table(["failure", "device", "work", "done by, or the error"], rows)
    return first + "\n" + table(["processes", "measured"], processes)


def section(results: Results) -> str:
    """Return the section of a run."""
    card = cell(results, "environment.card", "card")
    commit, date = (cell(results, "environment.commit", name) for name in ("commit", "date"))
    versions = results.get("environment.versions", {})
    libraries = ", ".join(
        f"{name} {versions[name]}" for name in ("python", "torch", "faiss") if name in versions
    )
    counts = [cell(results, "tests.counts", name) for name in ("tests", "failures", "errors", "skipped")]
    tests = "{} run, {} failed, {} with errors, {} skipped".format(*counts)
    tests = tests if "tests.counts" in results else NOT_MEASURED
    title = (
        "## No run yet\n" if card == NOT_MEASURED else f"## {card}\n\n{date}, commit {commit}; {libraries}.\n"
    )
    lead = (
        f"{title}\nTests of the GPU: {tests}. Device in use: {cell(results, 'environment.device', 'auto')}.\n"
    )
    return "\n".join([lead, queries(results), index(results), networks(results), failures(results)])


def page(runs: list[Results]) -> str:
    """Return the page for runs, newest first; without any, all rows are there and say so."""
    return "\n".join([HEAD, *(section(run) for run in runs or [{}])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="*")
    parser.add_argument("--out", type=Path, default=PAGE)
    options = parser.parse_args()
    options.out.write_text(page([read(path) for path in options.results]), encoding="utf-8")


if __name__ == "__main__":
    main()
