"""`cbir annotate serve`: run the annotation server."""

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cbir.errors import InvalidInput
from cbir.search import command_options as options
from cbir.store.collection_address import address_or_folder, public_name
from cbir.system.console import echo
from cbir.system.remedies import install_command

if TYPE_CHECKING:
    from cbir.store import Collection
    from service.features.annotate.study_plan import StudyPlan


def serve_study(
    collection: options.Folder,
    study_dir: Annotated[
        Path | None,
        typer.Option(
            "--study-dir",
            "--out",
            help="Folder for judgements, rounds and trained rankers. [default: folder of the collection + -study]",
        ),
    ] = None,
    question: Annotated[str | None, typer.Option(help="Question shown on the page.")] = None,
    strategy: Annotated[
        str | None, typer.Option(help="Strategy that selects the pairs of a round. [default: new-images]")
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
        typer.Option(
            help="Page that the address opens: pairs, or the grades of single images. [default: pairs]"
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="Only images with this label are judged, as modality=CT; also != < <= > >=, KEY? and !KEY?. "
            "Repeatable. none: all images again.",
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
        typer.Option(
            help="Label, such as grade, of which two images of each value are shown for reference.",
            hidden=True,
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Number of rounds. [default: 6]")] = None,
    start: Annotated[
        float | None, typer.Option(help="Fraction of the images in round 1. [default: 0.2]", hidden=True)
    ] = None,
    step: Annotated[
        float | None,
        typer.Option(help="Fraction of the images added in each later round. [default: 0.05]", hidden=True),
    ] = None,
    overlap: Annotated[
        float | None,
        typer.Option(help="Fraction of the pairs that everyone judges. [default: 0.1]", hidden=True),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Encoder whose values are learned from; none: a network on pictures, see --backbone. "
            "[default: the collection's encoder, or lite0-whole]"
        ),
    ] = None,
    backbone: Annotated[
        str | None, typer.Option(help="Network on pictures. [default: small]", hidden=True)
    ] = None,
    side: Annotated[
        int | None,
        typer.Option(help="Side length in pixels of the pictures of --backbone. [default: 64]", hidden=True),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help="Initial weights of --backbone: folder of a trained embedding, weights file, or none.",
            hidden=True,
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            help="Epochs of each training; if few pairs, see --steps. [default: 10; 20 for --backbone]",
            hidden=True,
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            help="Minimum number of batches of each training. [default: 300; 1000 for --backbone]",
            hidden=True,
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed. [default: 0]", hidden=True)] = None,
    prepare: Annotated[
        bool,
        typer.Option(
            "--prepare",
            help="Only store the plan, for `cbir serve` with the setting annotation_studies.",
            hidden=True,
        ),
    ] = False,
    host: Annotated[str | None, typer.Option(help="Address to listen on. [default: 127.0.0.1]")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on, 0 for any free port. [default: 8000]")
    ] = None,
    server: Annotated[
        Literal["gunicorn", "waitress"] | None,
        typer.Option(
            help="HTTP server. [default: gunicorn; waitress on systems without fork, such as Windows]",
            hidden=True,
        ),
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
    from service.features.annotate import study_options, study_plan
    from service.features.annotate.annotation_pages import create_annotation_app
    from service.features.annotate.annotation_studies import check_study
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
        study_fields = study_options.images_and_texts(
            opened, folder, where, instructions, reference, reference_label, seed or 0
        )
    options = {
        **study_fields,
        **study_options.grade_options(grades),
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
        "collection": public_name(collection),
    }
    plan = study_plan.resolve_plan(folder, options)
    _check_network(plan, backbone)
    study_plan.save_plan(folder, options)
    check_study(collection, folder)
    if prepare:
        echo(
            f"The plan is stored in {folder}; `cbir serve` offers it with CBIR_ANNOTATION_STUDIES={folder.parent}"
        )
        return
    listener = open_listener(loaded_settings)
    address = service_url(loaded_settings, listener)

    def ready() -> None:
        echo(f"The page: {address}/annotate{'/single' if plan.ask == 'grades' else ''}")
        echo(f"Judgements are stored in {folder}")
        echo("Press Ctrl-C to stop; the same command continues the study.")

    # The worker, which holds the journal, creates the app.
    make_app = partial(create_annotation_app, collection, folder, loaded_settings)
    run_server(server_name, make_app, loaded_settings, listener, ready)


def _choose_encoder(
    collection: "Collection", folder: Path, encoder: str | None, options: dict[str, Any]
) -> str | None:
    """Return the encoder of a study, "none" for pictures, None to leave that of a stored plan."""
    from cbir.learn.severity.stored_images import choose_encoder
    from service.features.annotate import study_plan

    if encoder is None and (folder / study_plan.FILE).exists() and not any(options.values()):
        return None
    return choose_encoder(collection, encoder, options) or study_plan.NO_WEIGHTS


def _absolute_path(weights: str | None) -> str | None:
    """Make a path of weights absolute; names of weights stay as they are."""
    from service.features.annotate.study_plan import NO_WEIGHTS

    return weights if weights in (None, NO_WEIGHTS, "imagenet") else str(Path(weights).resolve())


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
