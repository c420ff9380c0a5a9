"""`cbir collection ...`: look after a collection."""

import re
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from cbir.api.commands.change_collection import (
    build_index,
    copy_whole_collection,
    delete_from_collection,
    erase_patient,
    patient_keys,
)
from cbir.api.commands.show_commands import list_labels
from cbir.errors import CbirError, CollectionDamaged, InvalidInput
from cbir.search import command_options as options
from cbir.store.collection_address import address_or_folder
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_json, print_values
from cbir.system.lazy_commands import command_group

if TYPE_CHECKING:
    from cbir.store import Collection
    from cbir.store.upkeep.repair import Repair

PATIENT_KEY = re.compile("[0-9a-f]{32}")  # identifiers may be so short that they occur anywhere

ENDED_LOG = "the log of changes has ended; make a new backup with --log"
LOST = "not restored: {}"
WHEN_LOST = (
    "set labels that were not restored again; delete images whose records, vectors or thumbnails were not restored "
    "(`cbir collection delete`) and index their sources with --restore"
)


app = command_group("cbir.commands.collection", "Look after a collection.")
app.command("copy")(copy_whole_collection)
app.command("delete")(delete_from_collection)
app.command("erase-patient")(erase_patient)
app.command("labels")(list_labels)
app.command("build-index")(build_index)


@app.command()
def info(collection: options.Folder, format: Printed = OutputFormat.text) -> None:
    """Print a summary of the collection."""
    from cbir import settings
    from cbir.evaluation.tune import setting_advice
    from cbir.rerank import read_choice
    from cbir.store import Collection
    from cbir.store.index.open_index import open_index
    from cbir.store.writing.default_profile import default_profile_advice

    active_settings = settings.load()
    with Collection(collection) as opened:
        index = open_index(opened, active_settings)
        lines = [default_profile_advice(opened.profile, collection), *setting_advice(opened)]
        advice = "\n".join(line for line in lines if line) or None
        choice = read_choice(opened.auto_choice(), opened.profile.descriptor)
        address = address_or_folder(opened.folder)
        named = {} if address == str(opened.folder) else {"address": address}
        values = {
            **named,
            "folder": str(opened.folder),
            **opened.info(),
            "auto": f"{choice.method}: {choice.reason}",
        }
        if index:
            values["index"] = {
                name: value for name, value in asdict(index.status()).items() if value is not None
            }
    if format is OutputFormat.json:
        print_values(values | {"advice": advice}, format)
        return
    print_values(values, format)
    if advice:
        echo(advice)


@app.command()
def verify(
    collection: options.Folder,
    erased: Annotated[str | None, Option(help="Also search for traces of this patient.")] = None,
    repair: Annotated[bool, Option(help="Restore what is damaged from a sound copy of it.")] = False,
    trust_key: Annotated[
        bool,
        Option(
            "--trust-key",
            help="Take the present patient.key of a collection of an earlier version as its own.",
        ),
    ] = False,
    format: Printed = OutputFormat.text,
) -> None:
    """Read everything and compare it with its checksums. Exit code 1 if there is a problem."""
    from cbir.store.upkeep.repair import repair_rows
    from cbir.store.upkeep.verify import verify_collection

    if repair:
        _refuse_address(collection, "backups and ways to repair")
    opened_collection, repaired = _open_repaired(collection, repair)
    if trust_key:
        opened_collection.trust_key()
    with opened_collection as opened, StageBars() as bars:
        problems = verify_collection(opened, bars.show)
        if repair and problems:
            with opened.writer() as writer:
                repaired += repair_rows(opened)
                if not repaired.lost:  # else the last good copy may have what is lost
                    with suppress(CollectionDamaged):
                        writer.compact()
            problems = verify_collection(opened, bars.show)
        if erased:
            bars.show("searching for traces")
            problems += _find_traces(opened, erased)
    if format is OutputFormat.json:
        printed: dict[str, object] = {"ok": not problems, "problems": problems}
        print_json(printed | (asdict(repaired) if repair else {}))
    else:
        lines = [f"restored: {line}" for line in repaired.restored] + [
            LOST.format(line) for line in repaired.lost
        ]
        lines += [WHEN_LOST] if repaired.lost else []
        lines += [ENDED_LOG] if repaired.ended_log else []
        echo("\n".join([*lines, *(problems or ["no problems"])]))
    raise typer.Exit(1 if problems else 0)


def _refuse_address(folder: Path, means: str) -> None:
    """Raise InvalidInput for the files folder of a collection in PostgreSQL."""
    from cbir.store.postgresql.postgresql_address import is_in_postgresql

    if is_in_postgresql(folder):
        raise InvalidInput(
            f"{address_or_folder(folder)} is in PostgreSQL, which has {means} of its own: see docs/postgresql.md"
        )


def _find_traces(collection: "Collection", patient: str) -> list[str]:
    from cbir import settings
    from cbir.store.base.damage import raise_when_damaged
    from cbir.store.erasure import find_traces, find_traces_elsewhere

    traces: list[str] = []
    try:
        with raise_when_damaged(collection.folder), collection.writer():  # no one writes meanwhile
            keys = [key for key in patient_keys(collection, patient) if PATIENT_KEY.fullmatch(key)]
            traces += find_traces(collection, keys)
            return traces + find_traces_elsewhere(collection, settings.load(), keys)
    except CbirError as error:
        return [*traces, f"not verified: the search for traces of the patient did not end: {error}"]


def _open_repaired(folder: Path, repair: bool) -> "tuple[Collection, Repair]":
    """Open a collection; if it is too damaged for that, and `repair` is set, repair it first."""
    from cbir.store import Collection
    from cbir.store.collection_address import resolve_alias
    from cbir.store.upkeep.repair import Repair, repair_folder

    folder = resolve_alias(folder)
    try:
        return Collection(folder), Repair()
    except CollectionDamaged:
        if not repair:
            raise
    repaired = repair_folder(folder)
    return Collection(folder), repaired


@app.command()
def compact(
    collection: options.Folder,
    refit: Annotated[bool, Option(help="Fit the normalisation again, to the current images.")] = False,
    history_days: Annotated[
        int | None, Option(min=0, help="Delete changes older than this from the history. [default: keep all]")
    ] = None,
    deleted_days: Annotated[
        int | None,
        Option(min=0, help="Let images deleted longer ago than this be added again. [default: never]"),
    ] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Rebuild the snapshot of vectors without deleted images, and free unused space."""
    from cbir.store import Collection

    with Collection(collection) as opened:
        before = opened.info()["bytes_on_disk"]
        with opened.writer() as writer, StageBars() as bars:
            bars.show("rebuilding the index")
            writer.compact(refit, history_days, deleted_days)
        after = opened.info()
    values = {"images": after["images"], "bytes_before": before, "bytes_on_disk": after["bytes_on_disk"]}
    print_values(values, format)


@app.command()
def tune(
    collection: options.Folder,
    label: Annotated[str, Option(help="Label that relevant images share.")] = "label",
    queries: Annotated[int, Option(min=1, help="Leave-one-out queries per setting.")] = 200,
    rerank: Annotated[
        list[str] | None, Option(help="eprf, fuzzy-eprf or diffusion-eprf. Repeatable. [default: eprf]")
    ] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Tune C and gamma of SVM re-ranking by grid search, choose what auto stands for, and store both."""
    from cbir.evaluation.auto_choice import choose
    from cbir.evaluation.tune import METHODS, check_method, tune_profile
    from cbir.store import Collection

    methods = list(dict.fromkeys(rerank or METHODS[:1]))
    for method in methods:
        check_method(method)
    with Collection(collection) as opened, opened.writer() as writer, StageBars() as bars:
        options.check_label(opened, label)
        trials = {}
        for method in methods:
            profile, trials[method] = tune_profile(
                opened, label, method, queries, partial(bars.show, f"settings of {method}")
            )
            writer.set_profile(profile)
        choice = choose(opened, label, bars.show)
        writer.set_auto(choice.to_json())
    best = {method: asdict(tried[0]) for method, tried in trials.items()}
    values: dict[str, Any] = {**best.pop(METHODS[0], {}), "auto": f"{choice.method}: {choice.reason}"}
    tried = [
        f"{'' if method == METHODS[0] else f'{method} '}{trial}"
        for method in methods
        for trial in trials[method]
    ]
    if format is OutputFormat.json:
        print_values({**values, **best, "tried": tried}, format)
        return
    lines = {method: trials[method][0] for method in best}
    print_values({**values, **lines, "tried": "\n" + "\n".join(tried)}, format)


@app.command()
def export(
    collection: options.Folder,
    out: Annotated[Path, Argument(help="Folder for records.csv, vectors.npy and profile.json.")],
    sources: Annotated[
        bool, Option("--sources", help="Write paths of files, which may be names of patients, not hashes.")
    ] = False,
    format: Printed = OutputFormat.text,
) -> None:
    """Write records and raw vectors as plain files for other tools."""
    from cbir.store import Collection
    from cbir.store.upkeep.collection_copy import export_collection

    with Collection(collection) as opened:
        with StageBars() as bars:
            bars.show("writing")
            exported = export_collection(opened, out, sources)
        print_values({"exported": exported, "folder": str(out)}, format)


@app.command()
def backup(
    collection: options.Folder,
    out: Annotated[Path, Argument(help="New folder for the backup; with --append, the folder of one.")],
    log: Annotated[
        bool, Option("--log", help="Log all changes from now on, for --append and `restore --at`.")
    ] = False,
    append: Annotated[
        bool, Option("--append", help="Add the changes logged since to the backup in this folder.")
    ] = False,
    format: Printed = OutputFormat.text,
) -> None:
    """Copy everything that cannot be rebuilt, as of one moment, and verify the copy; others may work meanwhile."""
    from cbir.store import Collection
    from cbir.store.upkeep.backup import back_up_collection
    from cbir.store.upkeep.backup_log import append_log

    if log and append:
        raise InvalidInput("--log makes a new backup, --append continues one; use one of them")
    with Collection(collection) as opened:
        _refuse_address(opened.folder, "backups")
        if append:
            with opened.writer(), StageBars() as bars:
                bars.show("copying the log")
                appended = append_log(opened, out)
            print_values({"folder": str(out), "transactions_appended": appended}, format)
            return
        with StageBars() as bars:
            bars.show("copying")
            size = back_up_collection(opened, out, log)
    print_values({"folder": str(out), "bytes": size, "verified": True}, format)


@app.command()
def restore(
    backup: Annotated[Path, Argument(help="Folder of the backup.")],
    out: Annotated[
        Path, Argument(parser=options.folder_only, metavar="OUT", help="New folder for the collection.")
    ],
    at: Annotated[
        str | None,
        Option(
            help="State after this change of the history, or at this time (ISO 8601, UTC). [default: the latest]"
        ),
    ] = None,
    without_manifest: Annotated[
        bool, Option("--without-manifest", help="Restore also a backup that has lost its SHA256SUMS.")
    ] = False,
    format: Printed = OutputFormat.text,
) -> None:
    """Make a collection from a backup and verify it; `--at` needs a backup with a log."""
    from cbir.store.upkeep.restore import parse_moment, restore_backup

    with StageBars() as bars:
        bars.show("restoring")
        moment = None if at is None else parse_moment(at)
        restored = restore_backup(backup, out, moment, without_manifest)
    print_values({"folder": str(out), **asdict(restored), "verified": True}, format)
