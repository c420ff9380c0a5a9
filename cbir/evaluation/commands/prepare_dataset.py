"""`cbir dataset ...`: write manifests of published data sets for `cbir index --labels`."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from cbir.errors import InvalidInput
from cbir.system.console.output import OutputFormat, Printed, StageBars, print_json, print_values
from cbir.system.console.printable import echo

MAX_EXAMPLES = 3  # dropped images listed per reason
MAX_NOTES = 20


app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Prepare a published data set for indexing."
)


@app.command()
def irma(
    folder: Annotated[Path, Argument(help="Folder of a release of the IRMA benchmark, 2005 to 2009.")],
    out: Annotated[Path, Argument(help="CSV manifest to write.")],
    year: Annotated[str | None, Option(help="Year of the release. [default: by its files]")] = None,
    labelling: Annotated[
        str | None, Option(help="Labels of the 2009 release: 2005 or 2006 (classes), 2007 or 2008 (codes).")
    ] = None,
    tree: Annotated[Path | None, Option(help="IRMA code tree, to check codes and add their text.")] = None,
    split: Annotated[Literal["train", "test"] | None, Option(help="Write only this part.")] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Write a manifest of an IRMA release, and report images that were dropped and why."""
    from cbir.evaluation.datasets.irma.code_tree import CodeTree
    from cbir.evaluation.datasets.irma.irma_manifest import write_irma_manifest
    from cbir.evaluation.datasets.irma.release import read_release

    codes = CodeTree.read(tree) if tree else None
    with StageBars() as bars:
        bars.show("reading the release")
        release = read_release(folder, year, labelling, codes)
        count = write_irma_manifest(release, out, codes, split)
    if not count:
        out.unlink()
        raise InvalidInput(f"{folder} has no usable image in the part {split}")
    summary: dict[str, object] = {
        "release": release.year,
        "labelling": release.labelling,
        "train": sum(item.split == "train" for item in release.items),
        "test": sum(item.split == "test" for item in release.items),
        "without_label": sum(item.label is None for item in release.items),
        "labels": len({item.label for item in release.items if item.label}),
        "written": count,
        "manifest": str(out),
    }
    if format is OutputFormat.json:
        print_json(summary | {"dropped": release.dropped, "notes": release.notes})
        return
    print_values(summary, format)
    for reason, names in release.dropped.items():
        examples = ", ".join(names[:MAX_EXAMPLES]) + (", ..." if len(names) > MAX_EXAMPLES else "")
        echo(f"dropped: {len(names)} x {reason} ({examples})")
    for note in release.notes[:MAX_NOTES]:
        echo(f"note: {note}")


@app.command()
def irma_phantoms(
    out: Annotated[Path, Argument(help="Zip to write; NAME-tree.txt beside it is the code tree.")],
    year: Annotated[Literal["2007", "2009"], Option(help="Release whose layout it has.")] = "2009",
    count: Annotated[int, Option(help="Number of images, roughly.")] = 300,
    seed: Annotated[int, Option(min=0, help="Random seed; another one gives other patients.")] = 0,
    size: Annotated[int, Option(help="Pixels of the longer side, 32 to 4096.")] = 128,
) -> None:
    """Write a made-up IRMA release of phantoms, for trying out `cbir evaluate irma`."""
    from cbir.evaluation.datasets.irma.phantom_release import phantom_release_classes, write_phantom_release

    classes = phantom_release_classes(count)
    with StageBars() as bars:
        tree = write_phantom_release(
            out,
            year,
            classes,
            seed=seed,
            size=size,
            on_progress=lambda done, total: bars.show("drawing", done, total),
        )
    train, test = sum(item.train for item in classes), sum(item.test for item in classes)
    echo(f"{train} training and {test} test images of {len(classes)} classes in {out}, code tree in {tree}")


@app.command()
def fiftyone(
    folder: Annotated[
        Path, Argument(help="Folder that FiftyOne exported as FiftyOneDataset, with its media.")
    ],
    out: Annotated[Path, Argument(help="CSV manifest to write.")],
    format: Printed = OutputFormat.text,
) -> None:
    """Write a manifest of a FiftyOne data set: its classifications, plain fields and tags become labels."""
    from cbir.evaluation.datasets.fiftyone_manifest import write_fiftyone_manifest

    print_values({"written": write_fiftyone_manifest(folder, out), "manifest": str(out)}, format)


@app.command()
def medmnist(
    npz: Annotated[Path, Argument(help="MedMNIST file (2-D).")],
    folder: Annotated[Path, Argument(help="Folder for the images and manifest.csv.")],
    format: Printed = OutputFormat.text,
) -> None:
    """Write the images of a MedMNIST file as PNG, with a manifest. Run it again to continue if interrupted."""
    from cbir.evaluation.datasets.medmnist import write_medmnist

    with StageBars() as bars:
        bars.show("writing images")
        written = write_medmnist(npz, folder)
    print_values({"written": written, "manifest": str(folder / "manifest.csv")}, format)
