"""`cbir collection quarantine`."""

from typing import Annotated

from typer import Option

from cbir.search import command_options as options
from cbir.system.console import OutputFormat, Printed, echo, print_json

LISTED = 1000  # images of a page


def show_quarantine(
    collection: options.Folder,
    release: Annotated[
        list[str] | None, Option(metavar="ID", help="Add this image; may be repeated.")
    ] = None,
    refuse: Annotated[
        list[str] | None, Option(metavar="ID", help="Delete this image; may be repeated.")
    ] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """List the images that the intake check keeps out, release or refuse them."""
    from cbir.ingest.checks.pixel_checks import FINDINGS, findings_of
    from cbir.store import Collection
    from cbir.store.upkeep.quarantine_release import read_quarantined, refuse_images, release_images

    with Collection(collection) as opened:
        if release or refuse:
            with opened.writer() as writer:
                added = release_images(writer, release) if release else None
                if refuse:
                    refuse_images(writer, refuse)
                if added and opened.statistics():
                    writer.finish()
            echo(f"{len(release or [])} released, {len(refuse or [])} refused")
            return
        after, listed = "", []
        while page := read_quarantined(opened, after, LISTED):
            listed += page
            after = page[-1].image_id
    rows = [
        {
            "image_id": image.image_id,
            "findings": findings_of(image.record),
            "source": image.record.source,
            "at": image.at,
            "who": image.who,
        }
        for image in listed
    ]
    if format is OutputFormat.json:
        print_json({"items": rows})
        return
    for row in rows:
        echo(f"{row['image_id']}  {row['source']}: {'; '.join(FINDINGS[word] for word in row['findings'])}")
    echo(f"{len(rows)} images in quarantine")
