"""`cbir index`, of files unless its first word names another source, and `cbir collection redescribe`."""

import dataclasses
import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core
from typer import Argument, Option

from cbir import settings
from cbir.errors import InvalidInput
from cbir.search import command_options as options
from cbir.store.collection_address import address_or_folder, collection_folder
from cbir.store.index.follow_index import follow_index
from cbir.store.writing.default_profile import DEFAULT_PROFILE
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_json
from cbir.system.device import Device
from cbir.system.lazy_commands import StrictCommand, WholeSummaries
from indexer.dicomweb.crawl_command import crawl_dicomweb
from indexer.index_progress import (
    DONE,
    INTERRUPTED,
    SOME_REFUSED,
    JobsOption,
    RayOption,
    print_counts,
    print_speed,
    refusal_report,
)

if TYPE_CHECKING:
    from indexer.index_progress import IndexSummary
    from indexer.redescribe_run import RedescribeSummary, ShowProgress


FILES = "files"
REFIT_GROWTH = 4  # times the images that the statistics were computed from: then advise a refit


class ProgressFormat(StrEnum):
    """Formats of progress."""

    bar = "bar"
    json = "json"


class FilesByDefault(WholeSummaries):
    """`cbir index FOLDER` means `cbir index files FOLDER`, also for a folder with the name of a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the default command in front; a command's name alone is a folder if there is one of that name."""
        if not args or args[0] not in self.commands or self._names_folder(ctx, args):
            args = [FILES, *args]
        return super().parse_args(ctx, args)

    def _names_folder(self, ctx: Any, args: list[str]) -> bool:
        """Return whether the name of a command is a source; raise InvalidInput if `files` may be both."""
        name = args[0]
        if not Path(name).exists():
            return False
        command = self.commands[name].make_context(name, args[1:], ctx, resilient_parsing=True)
        if name != FILES:
            return "://" not in (command.params.get("url") or "")
        if command.params.get("sources"):
            raise InvalidInput(
                f"{FILES} is a folder here: write ./{FILES} for it, or leave the word {FILES} out"
            )
        return True


class FilesCommand(StrictCommand):
    """Shows its usage without its name."""

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write `cbir index [OPTIONS] SOURCES...`."""
        formatter.write_usage(
            ctx.command_path.removesuffix(f" {FILES}"), " ".join(self.collect_usage_pieces(ctx))
        )


app = typer.Typer(cls=FilesByDefault, add_completion=False)
app.command("dicomweb")(crawl_dicomweb)


@app.callback()
def _index() -> None:
    """Add images to a collection: files (cbir index FOLDER ...), or a DICOMweb archive."""


@app.command(
    FILES,
    cls=FilesCommand,
    no_args_is_help=True,
    epilog="To add the images of a DICOMweb archive, see: cbir index dicomweb --help",
)
def index_files(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Folders (searched recursively), image files, s3://BUCKET/PREFIX, and xnat://PROJECT.",
            metavar="SOURCE",
        ),
    ],
    collection: options.CreatedFolder,
    profile: Annotated[
        str | None,
        typer.Option(help=f"A {options.DESCRIPTORS}, of a new collection; {DEFAULT_PROFILE} by default."),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(help="PART=FACTOR of a part's share of the distance, for a new collection. Repeatable."),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(help="CSV file (or s3:// address) with a column `path` and any label columns."),
    ] = None,
    jobs: JobsOption = None,
    ray: RayOption = None,
    device: Annotated[
        Device | None,
        typer.Option(help="Device that describes images. [default: setting device]", show_default=False),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Write refused files, duplicates that were left out, and images whose display attributes (VOI LUT, "
            "window) cannot be used, with the reasons to this CSV file."
        ),
    ] = None,
    duplicates: Annotated[
        bool, typer.Option(help="Also add pictures that the collection has already.")
    ] = False,
    restore: Annotated[bool, typer.Option(help="Also add pictures that were deleted earlier.")] = False,
    format: Annotated[OutputFormat, typer.Option(help="Format of the summary.")] = OutputFormat.text,
    progress: Annotated[
        ProgressFormat, typer.Option(help="Progress on stderr: a bar, or lines of JSON for programs.")
    ] = ProgressFormat.bar,
) -> None:
    """Add images to a collection. Run an interrupted command again to continue it.

    Exit code 0: all done; 3: done, but some files were refused, or labels of duplicates differ; 2: wrong use; 130:
    interrupted.
    """
    from indexer.index_progress import ShownProgress, progress_lines
    from indexer.index_request import IndexRequest
    from indexer.index_run import run_request

    loaded = settings.load(device=device)
    request = IndexRequest.with_settings(
        loaded,
        sources,
        collection,
        profile=profile,
        weights=parse_weights(weight),
        labels=labels,
        jobs=jobs,
        ray=ray,
        duplicates=duplicates,
        restore=restore,
    )
    request.check()  # before a report or a collection is created
    with refusal_report(report) as report_refusal:
        progress_report = progress_lines() if progress is ProgressFormat.json else ShownProgress()
        summary = run_request(request, progress_report, report_refusal, report_refusal)
    if not summary.interrupted:
        follow_index(request.collection, loaded)
    if format is OutputFormat.json:
        typer.echo(json.dumps(dataclasses.asdict(summary) | {"collection": address_or_folder(collection)}))
    else:
        _print_summary(summary, report)
        _advise(collection, with_profile=profile is None and not weight)
    is_partly_done = summary.refused or summary.conflicts
    raise typer.Exit(INTERRUPTED if summary.interrupted else SOME_REFUSED if is_partly_done else DONE)


def parse_weights(texts: Sequence[str] | None) -> dict[str, float]:
    """Return the factors by part of options of the form PART=FACTOR; raises InvalidInput."""
    weights = {}
    for text in texts or ():
        part, _, factor = text.partition("=")
        try:
            weights[part] = float(factor)
        except ValueError:
            raise InvalidInput(
                f"--weight {text} is not of the form PART=FACTOR, for instance tamura=2"
            ) from None
    return weights


def _print_summary(summary: "IndexSummary", report: Path | None) -> None:
    print_speed(summary.indexed, "indexed", summary.describing_seconds, summary.seconds)
    listed = "by the intake check (cbir collection quarantine lists them)"
    counts = (
        (summary.already, "<file was|files were> in the collection already"),
        (summary.relabelled, "<file|files> got other labels"),
        (
            summary.completed,
            "<file|files> got what an older version had not read in <its header|their headers>",
        ),
        (
            summary.duplicates,
            "<image left out: a duplicate|images left out: duplicates> of images in the collection "
            "(--duplicates adds them, --report names them)",
        ),
        (summary.flagged, "<image|images> labelled by the intake check (label intake)"),
        (summary.quarantined, f"<image|images> quarantined {listed}"),
        (summary.deleted_earlier, "<image|images> left out: deleted earlier (--restore adds <it|them>)"),
        (summary.manifest_unused, "<row|rows> of the manifest <names|name> no file in the sources"),
        (
            summary.manifest_lost,
            "<row of the manifest names a file that was|rows of the manifest name files that were> refused, or "
            "<a picture that was|pictures that were> deleted earlier",
        ),
    )
    print_counts(counts)
    conflicts = (
        "<label of a duplicate differs|labels of duplicates differ> from <that|those> of the picture, which"
    )
    print_counts(
        [(summary.conflicts, f"{conflicts} <stays|stay>:")],
        summary.conflict_examples,
        summary.conflicts,
        report,
    )
    refused = [(summary.refused, "<file|files> refused:")]
    print_counts(refused, summary.examples, summary.refused, report, summary.interrupted)


def _advise(folder: Path, with_profile: bool) -> None:
    """Print what to do about an old fit and, `with_profile`, about a profile that is no longer the default."""
    from cbir.store import Collection
    from cbir.store.writing.default_profile import default_profile_advice

    with Collection(folder) as collection:
        statistics, images = collection.statistics(), len(collection)
        advice = default_profile_advice(collection.profile, folder) if with_profile else None
    if statistics and images > REFIT_GROWTH * statistics.fitted_on:
        echo(
            f"the normalisation was computed from {statistics.fitted_on} of {images} images; "
            f"`cbir collection compact --refit --collection {address_or_folder(folder)}` computes it again"
        )
    if advice:
        echo(advice)


def redescribe_collection(
    out: Annotated[
        Path,
        Argument(
            parser=collection_folder,
            metavar="OUT",
            help="Folder or address of the second collection; created if it does not exist.",
        ),
    ],
    collection: options.Folder,
    profile: Annotated[
        str,
        Option(help=f"A {options.DESCRIPTORS}, of the second collection."),
    ] = DEFAULT_PROFILE,
    weight: Annotated[
        list[str] | None, Option(help="PART=FACTOR of a part's share of the distance. Repeatable.")
    ] = None,
    jobs: Annotated[int | None, Option(min=1, help="Processes. [default: number of cores]")] = None,
    report: Annotated[
        Path | None,
        Option(
            help="Write the ids of images not described again, or kept, with the reasons to this CSV file."
        ),
    ] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Describe all images again with another profile, into a second collection.

    Images are read from their files or stored originals. Ids, records, labels, patient keys, marks of deleted and
    erased images, thumbnails, originals, quarantine and history are carried over; the first collection stays as it is
    and in use.
    Run the command again to continue it, and to carry over what was added, changed, deleted or erased since.

    Images that only the second collection has, and of which the first does not know that they were deleted, are kept.

    Exit code 0: all done; 3: done, but some images cannot be described again or were kept; 2: wrong use;
    130: interrupted.
    """
    from cbir.images import Limits
    from cbir.ingest.description import DescribeTask
    from cbir.store import Collection
    from cbir.store.base import profile as profiles
    from cbir.store.upkeep.carry_over import open_counterpart
    from cbir.system.threads import cores
    from indexer.redescribe_run import RedescribeRun

    loaded = settings.load()
    requested = profiles.get(profile, parse_weights(weight))
    with (
        Collection(collection) as source,
        open_counterpart(source, out, requested) as target,
        refusal_report(report, "image_id") as report_refusal,
        StageBars() as bars,
    ):
        task = DescribeTask.of_collection(
            target, loaded, Limits.from_settings(loaded), loaded.index_decode_seconds
        )
        task = dataclasses.replace(
            task, refuse_burned_in=False, check_intake=False
        )  # they have been accepted
        summary = RedescribeRun(
            source, target, task, jobs or cores(), report_refusal, _progress_on(bars), bars.show
        )()
    if not summary.interrupted:
        follow_index(out, loaded)
    if format is OutputFormat.json:
        print_json(dataclasses.asdict(summary) | {"collection": address_or_folder(out)})
    else:
        _print_redescribed(summary, report)
    raise typer.Exit(
        INTERRUPTED if summary.interrupted else SOME_REFUSED if summary.refused or summary.kept else DONE
    )


def _progress_on(bars: StageBars) -> "ShowProgress":
    return lambda done, total, refused: bars.show(
        "describing", done, total, f"{refused} refused" if refused else ""
    )


def _print_redescribed(summary: "RedescribeSummary", report: Path | None) -> None:
    print_speed(summary.described, "described", summary.describing_seconds, summary.seconds)
    counts = (
        (summary.already, "<image was|images were> in the second collection already"),
        (summary.updated, "of them <was|were> brought up to date"),
        (summary.removed, "<image|images> removed, which the first collection no longer has"),
        (summary.quarantined, "<image|images> carried over to the quarantine"),
        (summary.refused, "<image|images> cannot be described again"),
        (summary.kept, "<image is|images are> in the second collection only, and <was|were> kept"),
    )
    print_counts(counts, summary.examples, summary.refused + summary.kept, report, summary.interrupted)
