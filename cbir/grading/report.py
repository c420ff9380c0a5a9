"""What an evaluation leaves in a folder: figures, and all figures as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

from cbir.atomic import atomic_text
from cbir.evaluation.report.charts import alone
from cbir.grading.evaluation import Evaluation, compare
from cbir.grading.figures import boxes, histogram, scatter


def write(evaluations: Sequence[Evaluation], folder: Path) -> None:
    """Write ndcg.svg, of every method errors-NAME.svg and grades-NAME.svg, and summary.json."""
    folder.mkdir(parents=True, exist_ok=True)
    style = (files("cbir.evaluation.report") / "style.css").read_text(encoding="utf-8")
    drawn = {"ndcg.svg": boxes([(one.name, one.lists) for one in evaluations])}
    for one in evaluations:
        drawn[f"errors-{one.name}.svg"] = histogram(one.predicted - one.grades)
        drawn[f"grades-{one.name}.svg"] = scatter(one.predicted, one.grades)
    for name, chart in drawn.items():
        with atomic_text(folder / name) as file:
            file.write(alone(chart, style))
    p, compared = compare(evaluations)
    summary = {
        "methods": {one.name: {**one.overall, "folds": one.folds} for one in evaluations},
        "images": len(evaluations[0].tested),
        "anova_p": p,
        "tukey": [asdict(pair) for pair in compared],
    }
    with atomic_text(folder / "summary.json") as file:
        json.dump(json.loads(json.dumps(summary), parse_constant=lambda _: None), file, indent=2)
