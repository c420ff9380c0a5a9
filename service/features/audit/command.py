"""`cbir collection audit` and `cbir collection quarantine`."""

from functools import partial
from pathlib import Path
from time import monotonic
from typing import Annotated

from typer import Option

from cbir import settings
from cbir.search import command_options as options
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_json, print_values

LISTED = 1000  # images of a page


def audit_collection(
    collection: options.Folder,
    out: Annotated[Path, Option(help="Folder for the report; an earlier report there is replaced.")],
    label: Annotated[str | None, Option(metavar="KEY", help="Label whose errors are looked for.")] = None,
    split: Annotated[
        str | None,
        Option(metavar="KEY", help="Label that names the part of a split, such as train and test."),
    ] = None,
    source: Annotated[
        str | None,
        Option(
            metavar="KEY",
            help="Label that names where an image came from. [default: source, or the folder of the file]",
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        Option(
            metavar="KEY",
            help="Label whose values are compared in retrieval quality. Repeatable. [default: sex, age, ...]",
        ),
    ] = None,
    privacy: Annotated[
        bool,
        Option(
            "--privacy",
            help="Also look for persons in tags, labels, paths and pixels; needs the extra privacy.",
        ),
    ] = False,
    format: Printed = OutputFormat.text,
) -> None:
    """Look for duplicates, leaks, wrong labels, outliers, drift and gaps in a collection.

    Writes report.html with pictures, labels.csv, duplicates.csv, leaks.csv, outliers.csv and audit.json; with
    --privacy also privacy.csv and privacy_files.csv. Nothing is written if it is interrupted. The report has pictures
    of patients: only you can read its folder.
    """
    from cbir.images import Limits
    from cbir.store import Collection
    from service.features.audit.audit_output import REPORT_FILES, check_report_folder, write_audit
    from service.features.audit.collection_audit import AuditOptions, run_audit
    from service.features.audit.privacy import find_privacy, require_privacy_packages

    started, loaded = monotonic(), settings.load()
    check_report_folder(out, REPORT_FILES)
    if privacy:
        require_privacy_packages()
    audit_options = AuditOptions(label, split, source, tuple(group or ()))
    with Collection(collection) as opened, StageBars() as bars:
        audit = run_audit(opened, audit_options, loaded, bars.show)
        check = (
            find_privacy(opened, Limits.from_settings(loaded), partial(bars.show, "privacy"))
            if privacy
            else None
        )
        message = write_audit(out, audit, opened, loaded.max_pixels, bars.show, check)
    leaks = None if message.leaks is None else sum(message.leaks.counts.values())
    values = {
        "report": str(out / "report.html"),
        "images": message.images,
        "unread_images": message.duplicates.unread,  # without file and thumbnail: they are not compared by pictures
        "duplicate_groups": message.duplicates.groups,
        "leaks": leaks,
        "suspect_labels": None if message.labels is None else message.labels.suspects,
        "outliers": message.outliers.images,
        "drift_alarms": message.drift.alarms,
        "thin_values": message.coverage.thin,
        "worse_groups": None if message.groups is None else sum(each.worse for each in message.groups),
        "private_images": None if message.privacy is None else message.privacy.images,
        "seconds": round(monotonic() - started, 1),
    }
    print_values(values, format)


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
    from cbir.ingest.pixel_checks import FINDINGS, findings_of
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
