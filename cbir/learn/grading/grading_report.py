"""Report of an evaluation of graders: charts, and all numbers as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from cbir.evaluation.report.charts import standalone_svg
from cbir.learn.grading.figures import error_histogram, grade_scatter, ndcg_boxes
from cbir.learn.grading.grader_evaluation import GraderEvaluation, compare_graders
from cbir.system.files import atomic_text, private_folder


def write_grading_report(evaluations: Sequence[GraderEvaluation], folder: Path) -> None:
    """Write ndcg.svg, errors-NAME.svg and grades-NAME.svg of each method, and summary.json into `folder`."""
    private_folder(folder)
    charts = {"ndcg.svg": ndcg_boxes([(method.name, method.lists) for method in evaluations])}
    for method in evaluations:
        charts[f"errors-{method.name}.svg"] = error_histogram(method.predicted - method.grades)
        charts[f"grades-{method.name}.svg"] = grade_scatter(method.predicted, method.grades)
    for name, chart in charts.items():
        with atomic_text(folder / name) as file:
            file.write(standalone_svg(chart))
    p, compared = compare_graders(evaluations)
    summary = {
        "methods": {method.name: {**method.overall, "folds": method.folds} for method in evaluations},
        "images": len(evaluations[0].tested),
        "anova_p": p,
        "tukey": [asdict(pair) for pair in compared],
    }
    with atomic_text(folder / "summary.json") as file:
        json.dump(json.loads(json.dumps(summary), parse_constant=lambda _: None), file, indent=2)
