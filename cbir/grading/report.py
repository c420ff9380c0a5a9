"""What an evaluation leaves in a folder: figures, and all figures as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from cbir.atomic import atomic_text
from cbir.evaluation.report.svg_figure import standalone_svg
from cbir.grading.evaluation import Evaluation, compare
from cbir.grading.figures import error_histogram, grade_scatter, ndcg_boxes


def write(evaluations: Sequence[Evaluation], folder: Path) -> None:
    """Write ndcg.svg, of every method errors-NAME.svg and grades-NAME.svg, and summary.json."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {"ndcg.svg": ndcg_boxes([(one.name, one.lists) for one in evaluations])}
    for one in evaluations:
        drawn[f"errors-{one.name}.svg"] = error_histogram(one.predicted - one.grades)
        drawn[f"grades-{one.name}.svg"] = grade_scatter(one.predicted, one.grades)
    for name, chart in drawn.items():
        with atomic_text(folder / name) as file:
            file.write(standalone_svg(chart))
    p, compared = compare(evaluations)
    summary = {
        "methods": {one.name: {**one.overall, "folds": one.folds} for one in evaluations},
        "images": len(evaluations[0].tested),
        "anova_p": p,
        "tukey": [asdict(pair) for pair in compared],
    }
    with atomic_text(folder / "summary.json") as file:
        json.dump(json.loads(json.dumps(summary), parse_constant=lambda _: None), file, indent=2)
