"""Submissions for the test images of an IRMA release, one for each re-ranker, scored where they have labels.

A finished submission is reused while release, collection and settings are the same.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cbir
from cbir.evaluation.datasets.irma.code_tree import CodeTree
from cbir.evaluation.irma.code_error import ErrorRule
from cbir.evaluation.irma.irma_queries import find_irma_queries
from cbir.evaluation.irma.submission import SubmissionPlan, answer_queries, write_submission
from cbir.evaluation.irma.submission_score import score_submission
from cbir.evaluation.methods import Method
from cbir.evaluation.runs import DECISIVE_SETTINGS
from cbir.search import Request, Searcher
from cbir.settings import Settings
from cbir.store import Collection
from cbir.system.atomic import atomic_text

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class BenchmarkPlan:
    """Settings of the submissions for a release.

    folder: for the submissions; it has test.csv, the manifest of the test images. tree: for codes, None for classes.
    k: most neighbours that vote. sample, seed: of the training images that the vote is chosen on.
    """

    collection: Path
    folder: Path
    tree: CodeTree | None
    rule: ErrorRule
    methods: Sequence[Method]
    k: int
    sample: int
    seed: int

    @property
    def label(self) -> str:
        """Name of the label with the code or class."""
        return "irma_code" if self.tree else "irma_class"


def answer_release(plan: BenchmarkPlan, settings: Settings, progress: Progress) -> list[dict[str, Any]]:
    """Write a submission for each method, NAME.txt, and return their scores.

    Parameters
    ----------
    plan : BenchmarkPlan
    settings : Settings
        Of the searches.
    progress : callable
        Gets the stage, steps done and steps in all.

    Returns
    -------
    list of dict
        For each method its name, tuned vote, expected error, and `measured` on labelled test images; ready for JSON.
    """
    with Collection(plan.collection) as collection:
        searcher = Searcher(collection, settings)
        return [_answer_with(plan, method, searcher, progress) for method in plan.methods]


def _answer_with(
    plan: BenchmarkPlan, method: Method, searcher: Searcher, progress: Progress
) -> dict[str, Any]:
    path = plan.folder / f"{Path(method.file).stem}.txt"
    stored = path.with_suffix(".json")
    decisive = _decisive(plan, method, searcher)
    facts = _finished(path, stored, decisive)
    if facts is not None:
        progress(method.name, 1, 1)
        return facts | {"reused": True}

    def stage(name: str, steps: int) -> Callable[[int], None]:
        return lambda done: progress(f"{method.name}: {name}", done, steps)

    queries = find_irma_queries(plan.folder / "test.csv", plan.label)
    request = Request(k=plan.k, rerank=method.rerank, parameters=method.parameters)
    submission_plan = SubmissionPlan(searcher, request, plan.label, plan.sample, plan.seed, stage)
    submission = answer_queries(submission_plan, queries, plan.tree, plan.rule)
    write_submission(path, queries, submission.answers)
    facts = {
        "method": method.name,
        "submission": path.name,
        "images": len(queries),
        "training_images": len(submission.learned.images),
        "neighbours": submission.tuned.setting.neighbours,
        "sharpness": submission.tuned.setting.sharpness,
        "threshold": submission.tuned.setting.threshold,
        "estimated_normalised": submission.tuned.error,
        "unreadable": len(submission.refused),
        **score_submission(submission, queries, plan.tree, plan.rule),
    }
    with atomic_text(stored) as file:
        json.dump({"decisive": decisive, "facts": facts, "sha256": _digest(path)}, file, indent=2)
    return facts | {"reused": False}


def _decisive(plan: BenchmarkPlan, method: Method, searcher: Searcher) -> dict[str, Any]:
    """Return everything that decides the content of a submission."""
    info = searcher.collection.info()
    axes = [sorted(axis) for axis in plan.tree.axes] if plan.tree else []
    return {
        "cbir": cbir.__version__,
        "collection": [info["created"], info["generation"], info["profile_hash"]],
        "settings": searcher.settings.model_dump(mode="json", include=DECISIVE_SETTINGS),
        "method": method.name,
        "tree": hashlib.sha256(json.dumps(axes).encode()).hexdigest(),
        "queries": _digest(plan.folder / "test.csv"),
        "rule": plan.rule.value,
        "vote": [plan.k, plan.sample, plan.seed],
    }


def _finished(path: Path, stored: Path, decisive: dict[str, Any]) -> dict[str, Any] | None:
    try:
        saved = json.loads(stored.read_text(encoding="utf-8"))
        if saved["decisive"] == decisive and saved["sha256"] == _digest(path):
            facts: dict[str, Any] = saved["facts"]
            return facts
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
