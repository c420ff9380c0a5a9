"""`cbir annotate serve`, with the other commands of `cbir annotate`, which need no server."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cbir.commands.annotate import app
from cbir.errors import InvalidInput

if TYPE_CHECKING:
    from cbir.active.study.plan import Plan


@app.command()
def serve(
    collection: Annotated[Path, typer.Option(help="Folder of the collection whose images are compared.")],
    study_dir: Annotated[
        Path | None,
        typer.Option(
            "--study-dir",
            "--out",
            help="Folder of judgements, rounds and what is learnt [the collection's, with -study after its name].",
        ),
    ] = None,
    question: Annotated[str | None, typer.Option(help="What the page asks.")] = None,
    strategy: Annotated[
        str | None, typer.Option(help="That chooses the pairs of a round [variance].")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="How many [6].")] = None,
    start: Annotated[float | None, typer.Option(help="Share of the images in round 1 [0.2].")] = None,
    step: Annotated[float | None, typer.Option(help="Of those chosen for each later round [0.05].")] = None,
    overlap: Annotated[float | None, typer.Option(help="Of the pairs that everybody is asked [0.1].")] = None,
    backbone: Annotated[str | None, typer.Option(help="The network that learns [small].")] = None,
    side: Annotated[int | None, typer.Option(help="Pixels that it scales images to [64].")] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help="What it starts from: the folder of a trained embedding, a file of weights, or none."
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Times through the pairs, more with few: see --steps [20].")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Batches that it learns from at least, with few pairs too [1000].")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of what is drawn by chance [0].")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on [127.0.0.1].")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on, 0 for a free one [8000].")] = None,
) -> None:
    """Ask people which of two images is more severe, and learn from what they say.

    Options are kept with the study: the next start needs its folder only. On this machine only, unless there are
    tokens.
    """
    from cbir import settings
    from cbir.active.study import plan
    from cbir.store import Collection
    from service.access.start import check as start_check
    from service.annotate.server import AnnotationServer, check
    from service.commands import address_of
    from service.server import listen

    if find_spec("torch") is None:
        raise InvalidInput("learning needs torch: pip install 'cbir[deep]'")
    folder = study_dir or collection.resolve().with_name(f"{collection.resolve().name}-study")
    in_force = settings.load(host=host, port=port)
    start_check(in_force)
    with Collection(collection) as opened:  # what cannot be compared is told before a folder is made
        if len(opened) < 2:
            raise InvalidInput(
                f"comparing needs two images; {collection} has {len(opened)}; `cbir index` adds some"
            )
    given = {
        "question": question,
        "strategy": strategy,
        "rounds": rounds,
        "start": start,
        "step": step,
        "overlap": overlap,
        "backbone": backbone,
        "side": side,
        "weights": _from_anywhere(weights),
        "epochs": epochs,
        "steps": steps,
        "seed": seed,
    }
    _check_network(plan.meant(folder, given), backbone)
    plan.settle(folder, given)
    check(collection, folder)
    listener = listen(in_force)
    address = address_of(in_force, listener)

    def ready() -> None:
        typer.echo(f"The page: {address}/annotate")
        typer.echo(f"The judgements are kept in {folder}")
        typer.echo("Ctrl-C ends it; the same command goes on.")

    AnnotationServer(collection, folder, in_force, listener, ready).run()


def _from_anywhere(weights: str | None) -> str | None:
    """A path as it holds from every folder; words that stand for weights as they are."""
    from cbir.active.study.plan import NO_WEIGHTS

    return weights if weights in (None, NO_WEIGHTS, "imagenet") else str(Path(weights).resolve())


def _check_network(meant: "Plan", backbone: str | None) -> None:
    """That the network can be built; raises InvalidInput and NotFound. It is told before people judge for it."""
    if backbone is None and meant.weights is None:
        return  # as ever, and torch takes seconds to load
    from cbir.models import backbones

    if meant.backbone not in backbones.names():
        known = ", ".join(backbones.names())
        raise InvalidInput(f"--backbone: there is no backbone {meant.backbone!r}; there are: {known}")
    if meant.weights is not None:
        backbones.build(meant.backbone, dimensions=None, weights=meant.weights)
