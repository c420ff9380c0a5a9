"""`cbir index`."""

import dataclasses
import json
import threading
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cbir import settings
from cbir.datasets.manifest import Manifest
from cbir.errors import InvalidInput, NotFound
from cbir.images import Limits
from cbir.ingest.image_files import find_images
from cbir.paths import is_inside
from cbir.store import Collection
from cbir.store import profile as profiles
from cbir.threads import cores
from indexer.index_progress import ProgressBar, ProgressLines
from indexer.index_run import IndexRun, IndexSummary
from indexer.refusal_report import refusal_report as write_report

DONE, SOME_REFUSED, INTERRUPTED = 0, 3, 130  # and 2 for wrong use
REFIT = 4  # times as many images as the normalisation was learnt from: then say so


class Format(StrEnum):
    """How the summary is printed."""

    text = "text"
    json = "json"


class Shown(StrEnum):
    """How progress is told."""

    bar = "bar"
    json = "json"


def index_files(
    sources: Annotated[list[Path], typer.Argument(help="Folders (walked) and image files.")],
    collection: Annotated[Path, typer.Option(help="Folder of the collection; made where it does not exist.")],
    profile: Annotated[
        str | None,
        typer.Option(
            help="Descriptor to index_files with, the folder of a trained embedding, or FOLDER+DESCRIPTOR. [huang2012]"
        ),
    ] = None,
    weight: Annotated[
        list[str] | None, typer.Option(help="PART=FACTOR of a part's share of the distance; for a new one.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="A csv with `path` and any label columns.")] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; as many as there are cores if not given.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write refused files and reasons to this csv.")] = None,
    duplicates: Annotated[
        bool, typer.Option(help="Also index_files pictures that are there already.")
    ] = False,
    restore: Annotated[
        bool, typer.Option(help="Also index_files pictures that were deleted earlier.")
    ] = False,
    within: Annotated[
        list[Path] | None,
        typer.Option(hidden=True, help="Folder that links may not lead out of; for the service's jobs."),
    ] = None,
    who: Annotated[
        str, typer.Option(hidden=True, help="Whom the history names; for the service's jobs.")
    ] = "command line",
    format: Annotated[Format, typer.Option(help="Of the summary.")] = Format.text,
    progress: Annotated[
        Shown, typer.Option(help="A bar, or lines of JSON for other programs; both on stderr.")
    ] = Shown.bar,
) -> None:
    """Bring images into a collection. The same command goes on where an interrupted one stopped.

    Exit code 0: all done; 3: done, but some files were refused; 2: wrong use; 130: interrupted.
    """
    roots = within or []
    _check_inside([*sources, *([labels] if labels else [])], roots)
    manifest = Manifest(labels) if labels else None
    for source in sources:
        if not source.exists():
            raise NotFound(f"there is no file or folder {source}")  # before anything is made
    limits = Limits(pixels=settings.load().max_pixels)
    with (
        write_report(report) as refused,
        open_collection(collection, profile, weight or []) as opened,
        ProgressLines() if progress is Shown.json else ProgressBar() as shown,
    ):
        _count_beside(sources, roots, shown)
        run = IndexRun(
            opened,
            sources,
            manifest=manifest,
            jobs=jobs if jobs is not None else cores(),
            limits=limits,
            duplicates=duplicates,
            restore=restore,
            within=roots,
            who=who,
            progress=shown,
            refused=refused,
        )
        summary = run()
        fitted, held = opened.statistics(), len(opened)
    _print(summary, collection, report, format)
    if format is Format.text and fitted and held > REFIT * fitted.fitted_on:
        typer.echo(
            f"the normalisation was learnt from {fitted.fitted_on} of {held} images; "
            f"`cbir collection compact --refit --collection {collection}` learns it anew"
        )
    raise typer.Exit(INTERRUPTED if summary.interrupted else SOME_REFUSED if summary.refused else DONE)


def _count_beside(sources: Sequence[Path], roots: Sequence[Path], shown: ProgressBar | ProgressLines) -> None:
    """Tell how many files there are as soon as they are counted, while indexing has begun."""

    def count() -> None:
        with suppress(OSError, NotFound):  # a source that goes away is the run's to report
            shown.total = sum(1 for _ in find_images(sources, roots))

    threading.Thread(target=count, daemon=True).start()


def _check_inside(paths: Sequence[Path], roots: Sequence[Path]) -> None:
    """For jobs: a link may have changed since the service looked."""
    for path in paths:
        if roots and not is_inside(path, roots):
            raise InvalidInput(f"{path} lies in none of the folders that may be indexed")


def open_collection(folder: Path, name: str | None, weights: list[str]) -> Collection:
    """The collection in `folder`, made if need be; refuses another profile than it was made with."""
    chosen = profiles.get(name or "huang2012", dict(_weight(text) for text in weights))
    if not Collection.exists(folder):
        return Collection.create(folder, chosen)
    opened = Collection(folder)
    if (name or weights) and opened.profile.hash != chosen.hash:
        raise InvalidInput(
            f"{folder} was made with profile {opened.profile.name} (hash {opened.profile.hash}), not with "
            f"{chosen.name} (hash {chosen.hash}); leave --profile and --weight out, or name another collection"
        )
    return opened


def _weight(text: str) -> tuple[str, float]:
    part, _, factor = text.partition("=")
    try:
        return part, float(factor)
    except ValueError:
        raise InvalidInput(f"--weight {text} is not of the form PART=FACTOR, for instance tamura=2") from None


def _print(summary: IndexSummary, folder: Path, report: Path | None, format: Format) -> None:
    if format is Format.json:
        facts = dataclasses.asdict(summary) | {"collection": str(folder)}
        typer.echo(json.dumps(facts))
        return
    rate = summary.indexed / summary.seconds if summary.seconds else 0.0
    typer.echo(f"{summary.indexed} images indexed in {summary.seconds:.1f} s ({rate:.0f} a second)")
    for count, what in (
        (summary.already, "files were there already"),
        (summary.relabelled, "files got other labels"),
        (summary.duplicates, "images left out: the same picture is there (--duplicates takes them)"),
        (summary.deleted_earlier, "images left out: deleted earlier (--restore takes them)"),
        (summary.manifest_unused, "rows of the manifest name no file among the sources"),
        (summary.refused, "files refused:"),
    ):
        if count:
            typer.echo(f"{count} {what}")
    for path, reason in summary.examples:
        typer.echo(f"  {path}: {reason}")
    if summary.refused > len(summary.examples):
        typer.echo("  ... " + (f"all in {report}" if report else "--report FILE writes them all"))
    if summary.interrupted:
        typer.echo("interrupted; the same command goes on from here")
