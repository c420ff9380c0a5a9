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
METHODS = ("none", "auto", "diffusion", "eprf", "fuzzy-eprf", "aqe", "flat", "ivf")
FAILURES = {
    "none": ("exact", "flat", "faiss-ivf"),
    "memory": ("exact", "flat", "faiss-ivf"),
    "kernel": ("exact",),
    "faiss": ("flat", "faiss-ivf"),
    "none_afterwards": ("exact", "flat"),
    "sticky": ("exact",),
}
Results = dict[str, dict[str, Any]]


def read(path: Path) -> Results:
    """Return what a run measured on a GPU by step; queries by method and number of images."""
    results: Results = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:  # the run ended while it wrote this line
            continue
        name = row["step"]
        results[f"{name}.{row['images']}" if name.startswith("query_gpu.") else name] = row
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
    if kind == "query_gpu":
        size = "1m" if rest[-1] == "1000000" else "10m"
        name = f"default_{size}" if rest[0] in ("auto", "diffusion") and size == "10m" else f"queries_{size}"
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
    forms = {"median_ms": "{:.2f}", "p95_ms": "{:.2f}", "same": "{:.1%}", "ratio": "{:.1f}"}
    rows = [
        [
            f"{size:,}",
            f"`{method}`",
            *(cell(results, f"query_gpu.{method}.{size}", name, form=form) for name, form in forms.items()),
        ]
        for size in SIZES
        for method in METHODS
    ]
    heads = ["images", "method", "median, ms", "p95, ms", "first 100 as the CPU's", "times the lower bound"]
    return table(heads, rows)


# What each row of the tables says, the step that measured it, and the names of the values.
INDEX_ROWS = (
    ("the same neighbours, k = 10, 100, 2,048", "", ("same_k10", "same_k100", "same_k2048")),
    ("ms a query, k = 100: GPU, CPU", "", ("ms_k100", "cpu_ms_k100")),
    ("ms a query of 64, k = 100: GPU, CPU", "", ("ms_batch_k100", "cpu_ms_batch_k100")),
    ("seconds to build: GPU, CPU", ".build", ("seconds", "cpu_seconds")),
    ("added after a search, found themselves", ".additions", ("added", "found_themselves")),
    ("filters obeyed, a tenth and most images", ".filters", ("obeyed_tenth", "obeyed_most")),
    ("the same neighbours with these filters", ".filters", ("same_tenth", "same_most")),
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


def indexes(results: Results) -> str:
    """Return the table of FAISS's indexes."""
    rows = [
        [f"{kind}: {text}", cell(results, f"faiss.{kind}{step}", *names)]
        for kind in ("flat", "ivf")
        for text, step, names in INDEX_ROWS
    ]
    rows.append(["ivf: lists read, expected", cell(results, "faiss.ivf.nprobe", "nprobe", "expected")])
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
    for failure, indexes in FAILURES.items():
        for setting in ("auto",) if failure == "sticky" else ("auto", "cuda"):
            for index in indexes:
                step = f"failures.{failure}.{setting}.{index}"
                said = "refused" if "refused" in results.get(step, {}) else "answered_by"
                rows.append([failure.replace("_", " "), setting, index, cell(results, step, said)])
    processes = [
        ["two processes: first, second", cell(results, "processes.owners", "first", "second")],
        ["second after kill -9 of the first", cell(results, "processes.owners", "second_after_kill")],
        ["eight threads: the same answers, searches a second alone and together",
         cell(results, "processes.threads", "same", "per_second", "per_second_of_eight")],
    ]  # fmt: skip
    first = table(["failure", "device", "index", "answered by, or the error"], rows)
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
    return "\n".join([lead, queries(results), indexes(results), networks(results), failures(results)])


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
