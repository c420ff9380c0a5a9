"""`cbir dataset ...`: bring a published data set into the form that `cbir index --labels` reads."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cbir.errors import InvalidInput

SHOWN = 3  # examples of what was dropped, for each reason


class Format(StrEnum):
    """How the summary is printed."""

    text = "text"
    json = "json"


class Split(StrEnum):
    """Part of a benchmark."""

    train = "train"
    test = "test"


Printed = Annotated[Format, typer.Option("--format", help="Of the summary.")]

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Bring a published data set into form.")


@app.command()
def irma(
    folder: Annotated[Path, typer.Argument(help="A release of the IRMA benchmark, 2005 to 2009.")],
    out: Annotated[Path, typer.Argument(help="The manifest to write, a csv.")],
    year: Annotated[
        str | None, typer.Option(help="Of the release; recognised by its files if not given.")
    ] = None,
    labelling: Annotated[
        str | None, typer.Option(help="Of the release 2009: 2005 or 2006 (classes), 2007 or 2008 (codes).")
    ] = None,
    tree: Annotated[
        Path | None, typer.Option(help="The code tree: drops wrong codes, puts codes in words.")
    ] = None,
    split: Annotated[Split | None, typer.Option(help="Only this part.")] = None,
    format: Printed = Format.text,
) -> None:
    """Write a manifest of an IRMA release, and say what was found, dropped and why."""
    from cbir.datasets.irma import CodeTree, read
    from cbir.datasets.irma.manifest import write

    codes = CodeTree.read(tree) if tree else None
    release = read(folder, year, labelling, codes)
    count = write(release, out, codes, split)
    if not count:
        out.unlink()
        raise InvalidInput(f"{folder} has no usable image in the part {split}")
    found = {
        "release": release.year,
        "labelling": release.labelling,
        "train": sum(item.split == "train" for item in release.items),
        "test": sum(item.split == "test" for item in release.items),
        "without_label": sum(item.label is None for item in release.items),
        "labels": len({item.label for item in release.items if item.label}),
        "written": count,
        "manifest": str(out),
    }
    if format is Format.json:
        typer.echo(json.dumps(found | {"dropped": release.dropped, "notes": release.notes}))
        return
    for name, value in found.items():
        typer.echo(f"{name.replace('_', ' '):16}{value}")
    for reason, what in release.dropped.items():
        examples = ", ".join(what[:SHOWN]) + (", ..." if len(what) > SHOWN else "")
        typer.echo(f"dropped: {len(what)} x {reason} ({examples})")
    for note in release.notes[:20]:
        typer.echo(f"note: {note}")


@app.command()
def medmnist(
    npz: Annotated[Path, typer.Argument(help="A file of MedMNIST (2-D).")],
    folder: Annotated[Path, typer.Argument(help="Folder for the pictures and their manifest.csv.")],
    format: Printed = Format.text,
) -> None:
    """Write the pictures of a MedMNIST file as PNG, with a manifest; the same command goes on where it stopped."""
    from cbir.datasets import medmnist as reader

    found = {"written": reader.write(npz, folder), "manifest": str(folder / "manifest.csv")}
    typer.echo(
        json.dumps(found) if format is Format.json else "\n".join(f"{k}  {v}" for k, v in found.items())
    )
