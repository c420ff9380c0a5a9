"""Evaluation from Python: re-rankers on the labelled images of a collection."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from numbers import Integral
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from cbir import settings
from cbir.api.collection_images import CollectionImages
from cbir.errors import InvalidInput
from cbir.store.collection_address import collection_folder
from cbir.store.records.filter_conditions import LabelConditions, write_conditions
from cbir.system.remedies import install_command
from cbir.system.threads import cores

if TYPE_CHECKING:
    from pandas import DataFrame

    from cbir.evaluation.experiment import EvalResult


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Means of an evaluation, a row for each method and a column for each measure.

    result: values of every query, qrels and runs. summary: what `cbir evaluate run` writes as summary.json.
    """

    result: "EvalResult"
    summary: dict[str, Any]

    @property
    def means(self) -> dict[str, dict[str, float]]:
        """Mean of each measure, by method."""
        return {
            run["name"]: {name: values["mean"] for name, values in run["measures"].items()}
            for run in self.summary["runs"]
        }

    def to_pandas(self) -> "DataFrame":
        """Return a row for each method and measure: mean, 95 % interval, difference from the first method and p.

        Raises InvalidInput without pandas.
        """
        try:
            from pandas import DataFrame
        except ModuleNotFoundError as error:
            raise InvalidInput(f"to_pandas needs pandas: {install_command('pandas')}") from error
        columns = ("mean", "low", "high", "difference", "p", "p_holm")
        return DataFrame(
            [
                {"method": run["name"], "measure": name} | {column: values.get(column) for column in columns}
                for run in self.summary["runs"]
                for name, values in run["measures"].items()
            ]
        )

    def __repr__(self) -> str:
        width = max(len(name) for name in self.means)
        rows = [
            f"{name:{width}}  " + "  ".join(f"{measure} {mean:.4f}" for measure, mean in of_method.items())
            for name, of_method in self.means.items()
        ]
        return "\n".join([*rows, f"{self._queries} queries"])

    def _repr_html_(self) -> str:
        names = next(iter(self.means.values()))
        header = "".join(f"<th>{escape(name)}</th>" for name in ("method", *names))
        rows = "".join(
            f"<tr><td>{escape(name)}</td>{''.join(f'<td>{mean:.4f}</td>' for mean in of_method.values())}</tr>"
            for name, of_method in self.means.items()
        )
        return f"<table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table><p>{self._queries} queries</p>"

    @property
    def _queries(self) -> int:
        return len(self.result.qrels.queries)


def evaluate(
    collection: CollectionImages | str | os.PathLike[str],
    relevance: str = "label",
    rerank: str | Sequence[str] = ("none", "auto"),
    *,
    measures: str | Sequence[str] = ("AP", "P@1", "P@10", "nDCG@10", "RR"),
    queries: str | os.PathLike[str] | None = None,
    sample: int | None = None,
    seed: int = 0,
    where: LabelConditions = (),
    same_patient: bool = False,
    depth: int = 1000,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Evaluation:
    """Search with labelled images, each method in turn, and measure the answers, as `cbir evaluate run` does.

    Parameters
    ----------
    collection : OpenCollection, str or path-like
        Collection, or its folder or address.
    relevance : str
        Labels that relevant images share: label, modality+anatomy, irma:TDAB, grade, anatomy+grade.
    rerank : str or sequence of str
        Methods, with parameters as in "eprf:P=9"; the first one is the baseline.
    measures : str or sequence of str
        Measures of ir-measures, and ANMRR, mAP@k, mMV@k, ACC@k, kNNError@k.
    queries : str or path-like, optional
        CSV file with a column `path` and labels; by default every image of the collection, left out of its answers.
    sample : int, optional
        Number of queries, evenly from the classes; all by default.
    seed : int
        Random seed of the sample and the statistics, from 0.
    where : str, Condition or sequence of them
        Conditions on the answers, such as "modality=CT".
    same_patient : bool
        Allow answers of the query's patient.
    depth : int
        Answers to each query, 0 for all.
    jobs : int, optional
        Processes; by default the number of cores.
    out : str or path-like, optional
        Folder for run files in TREC form, which a repeated evaluation reads; by default they are not kept.

    Raises
    ------
    InvalidInput
        For an unknown method, measure or relevance, without labelled images, and without the extra `evaluate`.
    """
    _require_evaluate()
    from cbir.evaluation.experiment import EvalPlan, run_evaluation
    from cbir.evaluation.named_metrics import parse_metrics
    from cbir.evaluation.relevance import parse_relevance
    from cbir.evaluation.result_files import build_summary
    from cbir.evaluation.runs import parse_methods

    for name, value, least in (
        ("sample", sample, 1),
        ("seed", seed, 0),
        ("depth", depth, 0),
        ("jobs", jobs, 1),
    ):
        if value is not None and (not isinstance(value, Integral) or value < least):
            raise InvalidInput(f"{name}: a whole number, at least {least}, not {value!r}")
    folder = collection.folder if isinstance(collection, CollectionImages) else collection_folder(collection)
    in_force = collection.settings if isinstance(collection, CollectionImages) else settings.load()
    plan = EvalPlan(
        collection=folder,
        queries=None if queries is None else Path(queries),
        relevance=parse_relevance(relevance),
        methods=parse_methods(_words(rerank)),
        metrics=parse_metrics(_words(measures)),
        depth=depth,
        sample=sample,
        seed=seed,
        where=tuple(write_conditions(where)),
        same_patient=same_patient,
        jobs=jobs or cores(),
    )
    with TemporaryDirectory() as temporary:
        runs = (Path(temporary) if out is None else Path(out)) / "runs"
        result = run_evaluation(plan, in_force, runs, lambda stage, done, total: None)
    return Evaluation(result, build_summary(result))


def _require_evaluate() -> None:
    try:
        import ir_measures  # noqa: F401
        import statsmodels  # noqa: F401
    except ModuleNotFoundError as error:
        raise InvalidInput(f"an evaluation needs {error.name}: {install_command('evaluate')}") from error


def _words(values: str | Sequence[str]) -> str:
    return values if isinstance(values, str) else " ".join(values)
