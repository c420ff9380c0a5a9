"""`cbir grade evaluate`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from cbir.errors import InvalidInput
from cbir.learn import option_groups
from cbir.search import command_options as options
from cbir.system.console import OutputFormat, Printed, StageBars, print_json, results_console

if TYPE_CHECKING:
    from cbir.learn.grading.graded_cases import GradedCases
    from cbir.learn.grading.grader_evaluation import GraderEvaluation, IntervalCoverage, Split


@option_groups.with_choices(option_groups.RankerChoices)
def evaluate_graders(
    *,
    collection: options.Folder,
    grade_column: option_groups.Column = "grade",
    ranker: Annotated[
        list[str] | None,
        Option(
            help="s-ndcg, ranking-svm, adarank, rankboost, severity, cnn, regression, classification, ordinal; "
            "repeatable to compare several."
        ),
    ] = None,
    choices: option_groups.RankerChoices,
    folds: Annotated[int, Option(min=2, max=100, help="Cross-validation folds of patients.")] = 5,
    held_out: Annotated[
        str | None,
        Option(
            help="Instead of folds: grade the images with this label by the others, for example split=test."
        ),
    ] = None,
    where: options.Where = None,
    lists: Annotated[str, Option("--list-size", help="Images per list for NDCG, or all.")] = "20",
    smooth: option_groups.SmoothingText = None,
    coverage: Annotated[
        float | None,
        Option(
            min=0.01,
            max=0.99,
            help="Also measure the intervals of this coverage: the share of grades that they contain, for each grade "
            "shown, and the share of images refused as unlike the graded ones. For rankers, at most twice as long.",
        ),
    ] = None,
    seed: Annotated[int, Option(min=0, help="Random seed of folds and lists.")] = 0,
    report: Annotated[Path | None, Option(help="Folder for figures and a table.")] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Evaluate graders on images held out from fitting."""
    import numpy as np

    from cbir.evaluation.significance import group_folds
    from cbir.learn import grading
    from cbir.learn.grading import grader_evaluation as measuring
    from cbir.learn.grading.graded_cases import case_features, picture_maps, read_graded_cases, require_grades
    from cbir.learn.grading.grader_evaluation import measure_interval_coverage
    from cbir.learn.grading.ranker_options import RankerOptions, parse_list_size
    from cbir.store import Collection

    names = list(dict.fromkeys(ranker or ["s-ndcg"]))
    if report is not None and report.exists() and not report.is_dir():
        raise InvalidInput(f"{report} is a file; the figures need a folder")
    size = parse_list_size(lists, "--list-size")
    for name in names:
        measuring.check_grader_name(name)
        if coverage is not None and name not in grading.all_names():
            raise InvalidInput(f"--coverage is for rankers; {name} has no intervals")
    ranker_options = RankerOptions(**vars(choices))
    parameters = ranker_options.build_all(names)
    smoothed = ranker_options.smoothing(smooth, names)
    with StageBars() as bars:
        with Collection(collection) as opened:
            options.check_label(opened, grade_column)
            cases = read_graded_cases(opened, grade_column, opened.conditions(where or ()))
            require_grades(cases, grade_column)
            test_cases = None
            if held_out is not None:
                conditions = [*opened.conditions(where or ()), *opened.conditions([held_out])]
                test_cases = read_graded_cases(opened, grade_column, conditions)
            features: dict[str, Any] = {
                name: picture_maps(
                    opened, cases, parameters[name]["encoder"], ranker_options.picture_side(), bars.show
                )
                if "encoder" in parameters[name]
                else case_features(opened, name, cases).astype(np.float64)
                for name in names
            }
        patients = cases.groups()
        splits = (
            group_folds(cases.grades, patients, folds, seed)
            if test_cases is None
            else _split(cases, test_cases)
        )
        bars.show("evaluating")
        results = [
            measuring.evaluate_grader(
                name,
                features[name],
                cases.grades,
                splits,
                patients,
                size,
                smoothed,
                seed,
                parameters[name],
            )
            for name in names
        ]
        intervals = {
            name: measure_interval_coverage(
                grading.make_ranker(name, seed=seed, **parameters[name]),
                features[name],
                cases.grades,
                splits,
                patients,
                smoothed,
                coverage,
            )
            for name in names
            if coverage is not None
        }
    if report is not None:
        from cbir.learn.grading.grader_evaluation import write_grading_report

        write_grading_report(results, report)
    if format is OutputFormat.text:
        _print_comparison(results)
        for name, measured in intervals.items():
            _print_intervals(name, measured)
        return
    shown = {
        result.name: {**result.overall, **({"intervals": intervals[result.name]} if intervals else {})}
        for result in results
    }
    print_json(shown[names[0]] if len(results) == 1 else shown, strict=True)


def _split(cases: "GradedCases", test_cases: "GradedCases") -> "list[Split]":
    """Return one split; raises InvalidInput if a patient is on both sides, or one side is empty."""
    import numpy as np

    is_test = np.isin(cases.image_ids, test_cases.image_ids)
    if is_test.all() or not is_test.any():
        raise InvalidInput(
            f"--held-out selects {is_test.sum()} of {len(is_test)} graded images; select some, but not all"
        )
    shared = np.intersect1d(cases.patients[is_test], cases.patients[~is_test])
    if len(shared):
        raise InvalidInput(
            f"--held-out splits the images of {len(shared)} patients; keep those of a patient together"
        )
    return [(np.flatnonzero(~is_test), np.flatnonzero(is_test))]


def _print_comparison(results: "Sequence[GraderEvaluation]") -> None:
    from rich.table import Table

    from cbir.learn.grading.grader_evaluation import compare_graders

    table = Table("method", *results[0].overall, box=None)
    for result in results:
        table.add_row(result.name, *(f"{value:.4f}" for value in result.overall.values()))
    console = results_console()
    console.print(table)
    console.print(f"{len(results[0].tested)} images, {len(results[0].lists)} lists", highlight=False)
    if len(results) < 2:
        return
    p, compared = compare_graders(results)
    console.print(f"one-way analysis of variance of NDCG: p = {p:.3g}", highlight=False)
    for pair in compared:
        console.print(
            f"{pair.one} - {pair.other}: {pair.difference:+z.4f} [{pair.low:+z.4f}, {pair.high:+z.4f}], "
            f"p = {pair.p:.3g}",
            highlight=False,
        )


def _print_intervals(name: str, measured: "IntervalCoverage") -> None:
    from rich.table import Table

    table = Table("grade shown", "images", "covered", "mean width", box=None)
    for region in measured["regions"]:
        table.add_row(
            f"{region['grade']:g}",
            f"{region['images']}",
            f"{region['covered']:.3f}",
            f"{region['width']:.2f}",
        )
    images = sum(region["images"] for region in measured["regions"])
    table.add_row("all", f"{images}", f"{measured['covered']:.3f}", f"{measured['width']:.2f}")
    console = results_console()
    console.print(f"{name}: intervals of {measured['coverage']:.0%}", highlight=False)
    console.print(table)
    if measured["refused"] is not None:
        console.print(
            f"{measured['refused']:.1%} of the images refused as unlike the others", highlight=False
        )
