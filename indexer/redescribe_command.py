"""The command `cbir collection redescribe`."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from cbir import settings
from cbir.search import command_options as options
from cbir.store.collection_address import address_or_folder, collection_folder
from cbir.store.index.follow_index import follow_index
from cbir.store.writing.default_profile import DEFAULT_PROFILE
from cbir.system.console import OutputFormat, Printed, StageBars, print_json
from indexer.index_progress import DONE, INTERRUPTED, SOME_REFUSED, print_counts, print_speed, refusal_report

if TYPE_CHECKING:
    from indexer.redescribe_run import RedescribeSummary, ShowProgress


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
    from indexer.index_command import parse_weights
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
