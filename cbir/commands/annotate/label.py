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
    from cbir.active import stored
    from cbir.active.bayesian import BayesianRanker
    from cbir.active.labels import LABEL, write_severity
    from cbir.active.study import models, plan
    from cbir.store import Collection

    plan.read(study_dir)
    model = models.latest(study_dir)
    if model is None:
        raise InvalidInput(f"{study_dir} has learnt nothing yet: that happens once a round is full")
    with Collection(collection) as opened:
        there = {record.image_id for _, record in opened.iterate()}
        if not there.intersection(model.ids):
            raise InvalidInput(
                f"none of the images of {study_dir} is in {collection}; name its own collection"
            )
        ranker = BayesianRanker.load(study_dir / models.FOLDER / f"{model.after:04d}")
        stored.keep(opened, ranker, {"after": model.after, "judgements": model.judgements})
        changed = write_severity(opened, model.ids, model.severity.mean)
    typer.echo(
        f"{LABEL} of {len(there.intersection(model.ids))} images, learnt after round {model.after}; {changed} changed"
    )
