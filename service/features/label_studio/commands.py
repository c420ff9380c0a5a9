"""`cbir annotate to-label-studio` and `from-label-studio`."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from cbir.errors import InvalidInput
from cbir.search import command_options as options
from cbir.system.console import StageBars, echo

NOBODY = "label-studio"  # gets every pair that is still to be judged


def export_pairs(
    collection: options.Folder,
    study_dir: Annotated[Path, Option(help="Folder of the study; a new one is started there.")],
    out: Annotated[Path, Option(help="Empty or new folder for tasks, labelling interface and pictures.")],
    count: Annotated[
        int | None,
        Option(min=1, help="Number of pairs. [default: those of the current round that no one judged]"),
    ] = None,
    images: Annotated[
        str | None,
        Option(
            metavar="ADDRESS",
            help="Beginning of the pictures' addresses, if a web server of yours delivers them. "
            "[default: Label Studio's local files, whose root is the folder above --out]",
        ),
    ] = None,
    find_text: options.FindText = False,
    question: Annotated[str | None, Option(help="Question of the study.")] = None,
    where: Annotated[
        list[str] | None,
        Option(metavar="CONDITION", help="Only images with this label, for a new study. Repeatable."),
    ] = None,
) -> None:
    """Write the pairs that a study asks for as tasks of Label Studio.

    tasks.json and labeling-interface.xml are what a project of Label Studio imports; images/ has the pictures, which
    are of patients. Pairs with text in the pixels are left out.
    """
    from cbir import settings
    from cbir.learn.severity.stored_images import NO_ENCODER, choose_encoder
    from cbir.store import Collection
    from cbir.system.files import private_folder
    from service.features.annotate import study_options, study_plan
    from service.features.annotate.study import open_study
    from service.features.fiftyone.fiftyone_folder import ShownPictures
    from service.features.label_studio.tasks import write_pairs

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InvalidInput(f"{out} exists and is not an empty folder; name another")
    loaded = settings.load()
    with Collection(collection) as opened, StageBars() as bars:
        shown = ShownPictures(opened, loaded.max_pixels, find_text)
        options = study_options.images_and_texts(opened, study_dir, where, None, None, None, 0)
        if not (study_dir / study_plan.FILE).exists():
            options["encoder"] = choose_encoder(opened, None, {}) or NO_ENCODER
        study_plan.save_plan(study_dir, {**options, "question": question})
        study = open_study(collection, study_dir)
        try:
            pairs = study.next_pairs(NOBODY, count or max(1, len(study.current.pairs)))
            private_folder(out)
            written = write_pairs(
                out, pairs, study.plan, study.round_of, images, shown, partial(bars.show, "pictures")
            )  # fmt: skip
        finally:
            study.close()
    echo(f"{written.tasks} tasks and {written.pictures} pictures in {out}")
    if written.left_out:
        echo(
            f"{written.left_out} pairs left out: an image has text in its pixels, or its file is gone",
            err=True,
        )


def import_answers(
    export: Annotated[Path, typer.Argument(help="JSON export of Label Studio.")],
    study_dir: Annotated[Path, Option(help="Folder of the study that the tasks were made from.")],
) -> None:
    """Add the answers given in Label Studio to a study; those that it has already are left out."""
    from service.features.annotate import study_files, study_plan
    from service.features.annotate.active.judgement_journal import Journal
    from service.features.label_studio.tasks import read_label_studio_export

    plan = study_plan.read_plan(study_dir)
    judgements = read_label_studio_export(export, plan.study, study_files.read_rounds(study_dir))
    journal = Journal(study_files.journal_path(study_dir))
    try:
        added = sum(map(journal.add, judgements))
    finally:
        journal.close()
    echo(f"{added} judgements added, {len(judgements) - added} were there already")
