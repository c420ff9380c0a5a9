"""Terms of an evaluation and digests of its files, to repeat it and to see whether the results are the same."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cbir.evaluation.runs import EvalRun

PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "faiss-cpu",
    "opencv-python-headless",
    "onnxruntime",
    "pillow",
    "pydicom",
)
COLLECTION_TERMS = ("created", "generation", "images", "profile_hash")
TERMS = ("cbir", "python", "ir_measures", "versions", "settings", "collection")


def package_versions() -> dict[str, str]:
    """Return the versions of installed packages that decide vectors and rankings."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def file_digests(folder: Path, runs: Sequence[EvalRun]) -> dict[str, str]:
    """Return the SHA-256 of the files in the folder of a result that hold its figures, and of its runs, by name."""
    names = ["qrels.txt", "queries.csv"]
    return {name: _digest(folder / name) for name in names} | {
        f"runs/{run.method.file}": _digest(folder / run.file) for run in runs
    }


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def compare_with_result(path: Path, summary: Mapping[str, Any]) -> list[str] | None:
    """Compare an evaluation with the stated one of a summary.json.

    Parameters
    ----------
    path : Path
        A configuration, of which only results state terms and digests.
    summary : mapping
        Of the evaluation, as in summary.json.

    Returns
    -------
    list of str or None
        Differences in words, none if everything is the same; None if the file states no result.
    """
    if path.suffix.lower() == ".toml":
        return None
    stated = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(stated.get("files"), dict):
        return None
    differences = [
        f"{name} {_short(now)}, then {_short(then)}"
        for key in TERMS
        for name, now, then in _terms(key, summary.get(key), stated.get(key))
        if now != then
    ]
    files = {**stated["files"], **summary["files"]}
    return differences + [
        f"another content of {name}"
        for name in files
        if stated["files"].get(name) != summary["files"].get(name)
    ]


def _terms(key: str, now: Any, then: Any) -> Iterator[tuple[str, Any, Any]]:
    if not isinstance(now, dict) or not isinstance(then, dict):
        yield key, now, then
        return
    names = COLLECTION_TERMS if key == "collection" else sorted({*now, *then})
    for name in names:
        yield f"{key}: {name}" if key != "versions" else name, now.get(name), then.get(name)


def _short(value: Any) -> str:
    return "missing" if value is None else str(value)
