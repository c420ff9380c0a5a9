"""`cbir annotate serve`: run the annotation server."""

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cbir.errors import InvalidInput
from cbir.learn.severity.stored_images import matching_records
from cbir.search.command_options import FOLDER_OR_ADDRESS
from cbir.store import Collection
from cbir.store.collection_address import address_or_folder, collection_folder
from cbir.store.records.filter_conditions import Condition
from cbir.system.console import echo
from cbir.system.remedies import install_command
from service.features.annotate import study_plan

if TYPE_CHECKING:
    from cbir.store import Collection
    from service.features.annotate.study_plan import StudyPlan


MAX_NAME = 40  # characters
NONE = "none"  # takes away what an earlier start stored
MAX_BYTES = 4 * study_plan.MAX_INSTRUCTIONS  # a character has at most 4


def serve_study(
    collection: Annotated[
        Path,
        typer.Option(
            parser=collection_folder,
            metavar=FOLDER_OR_ADDRESS,
            help="Folder, or address in PostgreSQL, of the collection whose images are compared.",
        ),
    ],
    study_dir: Annotated[
        Path | None,
        typer.Option(
            "--study-dir",
            "--out",
            help="Folder for judgements, rounds and trained rankers [folder of the collection + -study].",
        ),
    ] = None,
    question: Annotated[str | None, typer.Option(help="Question shown on the page.")] = None,
    strategy: Annotated[
        str | None, typer.Option(help="Strategy that selects the pairs of a round [new-images].")
    ] = None,
    grades: Annotated[
        str | None,
        typer.Option(
            help="Ascending grades that people can give to single images, such as 0,1,2,3,4, none,mild,severe or "
            "0=none,1=mild; severity is then on their scale. none: no grades any more."
        ),
    ] = None,
    ask: Annotated[
        Literal["pairs", "grades"] | None,
        typer.Option(help="Page that the address opens: pairs, or the grades of single images [pairs]."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Only images with this label are judged, as modality=CT; also != < <= > >=, KEY? and !KEY?. "
            "Repeatable. none: all images again."
        ),
    ] = None,
    instructions: Annotated[
        Path | None,
        typer.Option(
            help="Markdown file with the instructions shown before the first pair; none: no instructions."
        ),
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            help="IMAGE_ID=CAPTION of an image shown for reference, or a csv with the columns image_id and caption. "
            "Repeatable. none: no such images any more."
        ),
    ] = None,
    reference_label: Annotated[
        str | None,
        typer.Option(help="Label, such as grade, of which two images of each value are shown for reference."),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Number of rounds [6].")] = None,
    start: Annotated[float | None, typer.Option(help="Fraction of the images in round 1 [0.2].")] = None,
    step: Annotated[
        float | None, typer.Option(help="Fraction of the images added in each later round [0.05].")
    ] = None,
    overlap: Annotated[
        float | None, typer.Option(help="Fraction of the pairs that everyone judges [0.1].")
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Encoder whose values are learned from; none: a network on pictures, see --backbone "
            "[the collection's encoder, or lite0-whole]."
        ),
    ] = None,
    backbone: Annotated[str | None, typer.Option(help="Network on pictures [small].")] = None,
    side: Annotated[
        int | None, typer.Option(help="Side length in pixels of the pictures of --backbone [64].")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help="Initial weights of --backbone: folder of a trained embedding, weights file, or none."
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            help="Epochs of each training; more if there are few pairs, see --steps [10; 20 for --backbone]."
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(help="Minimum number of batches of each training [300; 1000 for --backbone]."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed [0].")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on [127.0.0.1].")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on, 0 for any free port [8000].")] = None,
    server: Annotated[
        Literal["gunicorn", "waitress"] | None,
        typer.Option(help="HTTP server [gunicorn; waitress on systems without fork, such as Windows]."),
    ] = None,
) -> None:
    """Ask people which of two images is more severe, and learn from their answers.

    Options are stored with the study, so the next start needs only its folder. Without tokens, the server can be
    reached from this machine only.
    """
    needed = {"torch": "deep", "flask": "serve"}
    if lacking := [module for module in needed if find_spec(module) is None]:
        extras = ",".join(needed[module] for module in lacking)
        raise InvalidInput(f"this needs {' and '.join(lacking)}: {install_command(extras)}")

    from cbir import settings
    from cbir.store import Collection
    from service.access.security import check_startup
    from service.features.annotate.annotation_app import IMAGES_PAGE, PAIRS_PAGE, create_app
    from service.features.annotate.annotation_state import check_study
    from service.server.http_server import choose_server, open_listener, run_server
    from service.server.service_commands import service_url

    folder = study_dir or collection.resolve().with_name(f"{collection.resolve().name}-study")
    loaded_settings = settings.load(host=host, port=port)
    check_startup(loaded_settings)
    server_name = choose_server(server, loaded_settings)
    with Collection(collection) as opened:  # checked before the study folder is created
        if len(opened) < 2:
            raise InvalidInput(
                f"comparing needs at least two images; {address_or_folder(collection)} has {len(opened)}; "
                "add some with `cbir index`"
            )
        of_ranker = {"backbone": backbone, "side": side, "weights": weights}
        encoder = _choose_encoder(opened, folder, encoder, of_ranker)
        study_fields = images_and_texts(
            opened, folder, where, instructions, reference, reference_label, seed or 0
        )
    options = {
        **study_fields,
        **grade_options(grades),
        "question": question,
        "strategy": strategy,
        "ask": ask,
        "rounds": rounds,
        "start": start,
        "step": step,
        "overlap": overlap,
        "encoder": encoder,
        "backbone": backbone,
        "side": side,
        "weights": _absolute_path(weights),
        "epochs": epochs,
        "steps": steps,
        "seed": seed,
    }
    plan = study_plan.resolve_plan(folder, options)
    _check_network(plan, backbone)
    study_plan.save_plan(folder, options)
    check_study(collection, folder)
    listener = open_listener(loaded_settings)
    address = service_url(loaded_settings, listener)

    def ready() -> None:
        echo(f"The page: {address}{IMAGES_PAGE if plan.ask == 'grades' else PAIRS_PAGE}")
        echo(f"Judgements are stored in {folder}")
        echo("Press Ctrl-C to stop; the same command continues the study.")

    # The worker, which holds the journal, creates the app.
    make_app = partial(create_app, collection, folder, loaded_settings)
    run_server(server_name, make_app, loaded_settings, listener, ready)


def _choose_encoder(
    collection: "Collection", folder: Path, encoder: str | None, options: dict[str, Any]
) -> str | None:
    """Return the encoder of a study, "none" for pictures, None to leave that of a stored plan."""
    from cbir.learn.severity.stored_images import choose_encoder

    if encoder is None and (folder / study_plan.FILE).exists() and not any(options.values()):
        return None
    return choose_encoder(collection, encoder, options) or study_plan.NO_WEIGHTS


def _absolute_path(weights: str | None) -> str | None:
    """Make a path of weights absolute; names of weights stay as they are."""
    return weights if weights in (None, study_plan.NO_WEIGHTS, "imagenet") else str(Path(weights).resolve())


def _check_network(plan: "StudyPlan", backbone: str | None) -> None:
    """Raise InvalidInput or NotFound if the network cannot be built, before people judge for it."""
    if backbone is None and plan.weights is None:
        return  # the default network; importing torch takes seconds
    from cbir.descriptors.networks import backbones

    if plan.backbone not in backbones.names():
        names = ", ".join(backbones.names())
        raise InvalidInput(f"--backbone: unknown backbone {plan.backbone!r}; available: {names}")
    if plan.weights is not None:
        backbones.build_backbone(plan.backbone, dimensions=None, weights=plan.weights)


def parse_grades(text: str) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Return grades and their names of `0,1,2`, `none,mild,severe` or `0=none,1=mild`; no names in the first case.

    Names without numbers stand for 0, 1, 2, ...; the single word `none` for no grades at all. Raises InvalidInput.
    """
    if text.strip() == "none":
        return (), ()
    parts = [part.strip() for part in text.split(",")]
    if all(_is_number(part) for part in parts):
        return tuple(float(part) for part in parts), ()
    pairs = [part.partition("=") for part in parts]
    if all(separator and _is_number(number.strip()) for number, separator, _ in pairs):
        grades, names = [float(number) for number, _, _ in pairs], [name.strip() for _, _, name in pairs]
    elif not any(separator or _is_number(part) for part, (_, separator, _) in zip(parts, pairs, strict=True)):
        grades, names = [float(number) for number in range(len(parts))], parts
    else:
        raise InvalidInput(
            f"--grades: numbers, names, or NUMBER=NAME, with commas between them, not {text!r}"
        )
    if len(set(names)) < len(names) or not all(
        0 < len(name) <= MAX_NAME and name.isprintable() for name in names
    ):
        raise InvalidInput(f"--grades: names of grades are different texts of 1 to {MAX_NAME} characters")
    return tuple(grades), tuple(names)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def grade_options(grades: str | None) -> dict[str, Any]:
    """Return the fields of the plan that the option --grades sets; {} if it was not given. Raises InvalidInput."""
    if grades is None:
        return {}
    values, names = parse_grades(grades)
    return {"grades": values, "grade_names": names}


def images_and_texts(
    collection: Collection, folder: Path, where: Sequence[str] | None, instructions: Path | None,
    reference: Sequence[str] | None, reference_label: str | None, seed: int,
) -> dict[str, Any]:  # fmt: skip
    """Return the fields of the plan for images and texts; those of options that were not given are None.

    Parameters
    ----------
    collection : Collection
    folder : Path
        Folder of the study.
    where : sequence of str, optional
        Conditions on the images that are judged.
    instructions : Path, optional
        Markdown file.
    reference : sequence of str, optional
        IMAGE_ID=CAPTION, or csv files.
    reference_label : str, optional
        Label whose values have reference images.
    seed : int
        Of the choice of reference images.

    Raises
    ------
    InvalidInput
        If a value is not valid, or fewer than two images remain.
    """
    conditions = _conditions(where)
    stored = study_plan.read_plan(folder).where if (folder / study_plan.FILE).exists() else ()
    parsed = collection.conditions(stored if conditions is None else conditions)
    if parsed and len(matching_records(collection, parsed)) < 2:
        raise InvalidInput("--where: fewer than two images remain, and comparing needs two")
    return {
        "where": conditions,
        "instructions": _read_instructions(instructions),
        "references": _references(collection, reference, reference_label, parsed, seed),
    }


def _conditions(where: Sequence[str] | None) -> tuple[str, ...] | None:
    if not where:
        return None
    return () if list(where) == [NONE] else tuple(where)


def _read_instructions(path: Path | None) -> str | None:
    if path is None:
        return None
    if str(path) == NONE:
        return ""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidInput(
                f"--instructions: {path} has more than {study_plan.MAX_INSTRUCTIONS:,} characters"
            )
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"--instructions: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"--instructions: {path} is not a text in UTF-8") from error


def _references(
    collection: Collection,
    texts: Sequence[str] | None,
    label: str | None,
    where: Sequence[Condition],
    seed: int,
) -> list[study_plan.ReferenceImage] | None:
    if not texts and label is None:
        return None
    if list(texts or ()) == [NONE] and label is None:
        return []
    references = [each for text in texts or () for each in study_plan.parse_reference(text)]
    if label is not None:
        references += study_plan.references_of_label(collection, label, where, seed)
    study_plan.check_references(collection, references)
    return references
