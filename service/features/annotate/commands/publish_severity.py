"""`cbir annotate label`."""

from pathlib import Path
from typing import Annotated

from typer import Option

from cbir.errors import InvalidInput
from cbir.learn.commands.train_models import require_torch
from cbir.search import command_options as options
from cbir.store.collection_address import address_or_folder
from cbir.system.console import StageBars, echo


def publish_severity(
    collection: options.Folder, study_dir: Annotated[Path, Option(help="Folder of the study.")]
) -> None:
    """Write the results of a study to the collection: the label `severity` of its images, and the ranker."""
    require_torch("cpu", 0)
    from cbir.learn.severity import stored_ranker
    from cbir.learn.severity.severity_rankers import load_severity_ranker
    from cbir.learn.severity.stored_ranker import LABEL, write_severity
    from cbir.store import Collection
    from cbir.store.base.stored_models import read_ranker_conditions
    from service.features.annotate.study import study_models, study_plan

    study_plan.read_plan(study_dir)  # reports a folder without a study
    model = study_models.latest_model(study_dir)
    if model is None:
        raise InvalidInput(f"{study_dir} has no ranker yet: one is trained when a round is complete")
    with Collection(collection) as opened, StageBars() as bars:
        collection_ids = {record.image_id for _, record in opened.iterate()}
        if not collection_ids.intersection(model.ids):
            raise InvalidInput(
                f"none of the images of {study_dir} is in {address_or_folder(collection)}; name the "
                "collection of the study"
            )
        ranker = load_severity_ranker(model.folder)
        bars.show("writing labels")
        where = read_ranker_conditions(model.folder)  # the study may have others since
        facts = {"after": model.after, "judgements": model.judgements, "where": list(where)}
        stored_ranker.store_ranker(opened, ranker, facts)
        changed = write_severity(opened, model.ids, model.severity.mean)
    echo(
        f"{LABEL} of {len(collection_ids.intersection(model.ids))} images, predicted after round {model.after}; "
        f"{changed} changed"
    )
