"""`cbir collection ...`: look after a collection."""

import json
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from cbir.errors import InvalidInput
from cbir.store import Collection
from cbir.store.backup import backup as backup_collection
from cbir.store.export import export as export_collection
from cbir.store.filters import parse
from cbir.store.records import hash_patient
from cbir.store.traces import traces
from cbir.store.verify import verify as verify_collection
from cbir.store.view import matching_numbers


class Format(StrEnum):
    """How facts are printed."""

    text = "text"
    json = "json"


KEY = re.compile("[0-9a-f]{32}")  # of a patient; an identifier may be so short that it is found anywhere

Folder = Annotated[Path, typer.Option("--collection", help="Folder of the collection.")]
Printed = Annotated[Format, typer.Option("--format", help="How it is printed.")]

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Look after a collection.")


def _print(facts: dict[str, object], format: Format) -> None:
    if format is Format.json:
        typer.echo(json.dumps(facts))
        return
    for name, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {inner}" for key, inner in value.items()) or "-"
        typer.echo(f"{name.replace('_', ' '):22}{'-' if value is None else value}")


@app.command()
def info(collection: Folder, format: Printed = Format.text) -> None:
    """What the collection holds and how it was made."""
    with Collection(collection) as opened:
        _print(opened.info(), format)


@app.command()
def verify(
    collection: Folder,
    erased: Annotated[
        str | None, typer.Option(help="Patient, key or identifier, of whom nothing may be left in any file.")
    ] = None,
    format: Printed = Format.text,
) -> None:
    """Check database, vectors and snapshot against each other. Exit code 1 where something is wrong."""
    with Collection(collection) as opened:
        problems = verify_collection(opened)
        if erased and not problems:
            with opened.writer():  # nobody writes meanwhile
                keys = [key for key in _keys(opened, erased) if KEY.fullmatch(key)]
                problems = traces(opened, keys)
    if format is Format.json:
        typer.echo(json.dumps({"ok": not problems, "problems": problems}))
    else:
        typer.echo("\n".join(problems) or "nothing wrong")
    raise typer.Exit(1 if problems else 0)


@app.command()
def compact(
    collection: Folder,
    refit: Annotated[
        bool, typer.Option(help="Learn the normalisation anew from the images there are.")
    ] = False,
    format: Printed = Format.text,
) -> None:
    """Write the derived index anew, without deleted images, and give unused space back."""
    with Collection(collection) as opened:
        before = opened.info()["bytes_on_disk"]
        with opened.writer() as writer:
            writer.compact(refit)
        after = opened.info()
    _print(
        {"images": after["images"], "bytes_before": before, "bytes_on_disk": after["bytes_on_disk"]}, format
    )


@app.command()
def delete(
    collection: Folder,
    image_ids: Annotated[list[str] | None, typer.Argument(help="Ids of images.")] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Also those whose labels match, e.g. label=knee.")
    ] = None,
    format: Printed = Format.text,
) -> None:
    """Delete images for good: indexing their folder again leaves them out. Exit code 1 where an id is unknown."""
    if not image_ids and not where:
        raise InvalidInput("name the images to delete by id, or with --where")
    with Collection(collection) as opened, opened.writer() as writer:
        wanted = list(image_ids or [])
        if where:
            with opened.engine.connect() as connection:
                numbers = matching_numbers(connection, [parse(text) for text in where]).tolist()
            for start in range(0, len(numbers), 10_000):
                wanted += [
                    record.image_id for record in opened.records(numbers[start : start + 10_000]).values()
                ]
        deleted = writer.delete(wanted)
    unknown = sorted(set(wanted) - set(deleted))
    _print({"deleted": len(deleted), "unknown": " ".join(unknown) or None}, format)
    raise typer.Exit(1 if unknown else 0)


@app.command("erase-patient")
def erase_patient(
    collection: Folder,
    patient: Annotated[str, typer.Argument(help="Patient key, or the identifier it was made from.")],
    format: Printed = Format.text,
) -> None:
    """Remove every trace of a patient from every file of the collection. Exit code 1 where there was none.

    The normalisation is learnt anew, so that distances change a little: the old one could give the erased away.
    """
    with Collection(collection) as opened, opened.writer() as writer:
        erased = writer.erase_patient(_keys(opened, patient))
    _print({"erased": erased}, format)
    raise typer.Exit(0 if erased else 1)


def _keys(collection: Collection, patient: str) -> list[str]:
    return [key for key in (patient, hash_patient(collection.secret, patient)) if key]


@app.command()
def tune(
    collection: Folder,
    label: Annotated[
        str, typer.Option(help="Label that says which images are relevant to each other.")
    ] = "label",
    queries: Annotated[int, typer.Option(min=1, help="Leave-one-out queries for each setting.")] = 200,
    format: Printed = Format.text,
) -> None:
    """Choose the re-ranking's C and gamma by grid search, and keep them with the collection."""
    from cbir.evaluation.tune import tune as tune_collection

    with (
        Collection(collection) as opened,
        opened.writer() as writer,
        Progress(console=Console(stderr=True)) as bar,
    ):
        shown = bar.add_task("trying settings")

        def progress(done: int, total: int) -> None:
            bar.update(shown, completed=done, total=total)

        trials = tune_collection(opened, label, queries=queries, progress=progress)
        best = trials[0]
        settings = opened.profile.rerank | {"C": best.C, "gamma": best.gamma}
        writer.set_profile(opened.profile.model_copy(update={"rerank": settings}))
    tried = [f"C={trial.C:g} gamma={trial.gamma:g}: {trial.mean_average_precision:.4f}" for trial in trials]
    facts = {"C": best.C, "gamma": best.gamma, "mean_average_precision": best.mean_average_precision}
    _print({**facts, "tried": tried if format is Format.json else "\n" + "\n".join(tried)}, format)


@app.command()
def export(
    collection: Folder,
    out: Annotated[Path, typer.Argument(help="Folder for records.csv, vectors.npy and profile.json.")],
    format: Printed = Format.text,
) -> None:
    """Write records and raw vectors as plain files for other tools."""
    with Collection(collection) as opened:
        _print({"exported": export_collection(opened, out), "folder": str(out)}, format)


@app.command()
def backup(
    collection: Folder,
    out: Annotated[Path, typer.Argument(help="Folder to make.")],
    format: Printed = Format.text,
) -> None:
    """Copy all that cannot be made anew, as it is at one moment; others may read and write meanwhile."""
    with Collection(collection) as opened:
        _print({"folder": str(out), "bytes": backup_collection(opened, out)}, format)
