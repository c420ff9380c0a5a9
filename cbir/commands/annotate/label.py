"""`cbir annotate label`."""

from pathlib import Path
from typing import Annotated

import typer

from cbir.commands.deep import needs_torch
from cbir.errors import InvalidInput


def label(
    collection: Annotated[Path, typer.Option(help="Folder of the collection.")],
    study_dir: Annotated[Path, typer.Option(help="Folder of the study.")],
) -> None:
    """Write what a study has learnt to the collection: the label `severity` of its images, and the ranker itself."""
    needs_torch("cpu", 0)
    from cbir.active.study import study_models, study_plan
    from cbir.severity import stored_ranker
    from cbir.severity.bayesian_ranker import BayesianRanker
    from cbir.severity.severity_labels import LABEL, write_severity
    from cbir.store import Collection

    study_plan.read_plan(study_dir)
    model = study_models.latest_model(study_dir)
    if model is None:
        raise InvalidInput(f"{study_dir} has learnt nothing yet: that happens once a round is full")
    with Collection(collection) as opened:
        there = {record.image_id for _, record in opened.iterate()}
        if not there.intersection(model.ids):
            raise InvalidInput(
                f"none of the images of {study_dir} is in {collection}; name its own collection"
            )
        ranker = BayesianRanker.load(study_dir / study_models.FOLDER / f"{model.after:04d}")
        stored_ranker.store_ranker(opened, ranker, {"after": model.after, "judgements": model.judgements})
        changed = write_severity(opened, model.ids, model.severity.mean)
    typer.echo(
        f"{LABEL} of {len(there.intersection(model.ids))} images, learnt after round {model.after}; {changed} changed"
    )
