"""`cbir phantoms`, and `cbir dataset ...`: manifests of published data sets for `cbir index --labels`."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from cbir.errors import InvalidInput
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_json, print_values

IMAGES, IMAGE_SIZE = 200, 256

SERIES, SLICES, SLICE_SIZE = 28, 24, 128


def draw_phantoms(
    out: Annotated[Path, Argument(help="Folder for the images.")],
    count: Annotated[
        int | None, Option(help="Number of images, or of series.", show_default=f"{IMAGES}; {SERIES} series")
    ] = None,
    format: Annotated[
        Literal["png", "dicom"] | None,
        Option(help="Format of the files.", show_default="png; dicom for series"),
    ] = None,
    seed: Annotated[int, Option(help="Random seed; another one gives other patients.")] = 0,
    size: Annotated[
        int | None,
        Option(
            help="Pixels of the longer side, 32 to 4096.",
            show_default=f"{IMAGE_SIZE}; {SLICE_SIZE} for series",
        ),
    ] = None,
    series: Annotated[bool, Option("--series", help="Draw CT series with lesions.")] = False,
    slices: Annotated[
        int | None, Option(help="Slices of a series, 1 to 200.", show_default=str(SLICES))
    ] = None,
    slit_lamp: Annotated[
        bool, Option("--slit-lamp", help="Draw slit-lamp images of lenses with grades, and their outlines.")
    ] = False,
) -> None:
    """Draw synthetic radiographs, CT series with lesions, or slit-lamp images, for trying out the program."""
    from cbir.evaluation.datasets.phantoms import write_lens_phantoms, write_phantom_series, write_phantoms

    if slices is not None and not series:
        raise InvalidInput("--slices is for series; add --series, or leave it out")
    if series and format == "png":
        raise InvalidInput("--series writes DICOM files; leave --format out")
    if slit_lamp and (series or format == "dicom"):
        raise InvalidInput("--slit-lamp writes png files of single images; leave --series and --format out")
    count = count if count is not None else SERIES if series else IMAGES
    with StageBars() as bars:

        def show(done: int) -> None:
            bars.show("drawing", done, max(count, 1))

        if series:
            side, depth = SLICE_SIZE if size is None else size, SLICES if slices is None else slices
            manifest = write_phantom_series(out, count, seed=seed, size=side, slices=depth, on_progress=show)
        elif slit_lamp:
            side = IMAGE_SIZE if size is None else size
            manifest = write_lens_phantoms(out, count, seed=seed, size=side, on_progress=show)
        else:
            side = IMAGE_SIZE if size is None else size
            manifest = write_phantoms(
                out, count, format=format or "png", seed=seed, size=side, on_progress=show
            )
    echo(f"{count} {'series' if series else 'phantoms'} in {out}, labels in {manifest}")
    if slit_lamp:
        echo(f"next: cbir grade slit-lamp fit {out / 'outlines.csv'} --out MODEL")
        return
    echo(f"next: cbir index {out} --collection DIR --labels {manifest}")


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
    from cbir.evaluation.datasets.irma.codes import CodeTree
    from cbir.evaluation.datasets.irma.release import read_release, write_irma_manifest

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
    from cbir.evaluation.datasets.dataset_manifests import write_fiftyone_manifest

    print_values({"written": write_fiftyone_manifest(folder, out), "manifest": str(out)}, format)


@app.command()
def medmnist(
    npz: Annotated[Path, Argument(help="MedMNIST file (2-D).")],
    folder: Annotated[Path, Argument(help="Folder for the images and manifest.csv.")],
    format: Printed = OutputFormat.text,
) -> None:
    """Write the images of a MedMNIST file as PNG, with a manifest. Run it again to continue if interrupted."""
    from cbir.evaluation.datasets.dataset_manifests import write_medmnist

    with StageBars() as bars:
        bars.show("writing images")
        written = write_medmnist(npz, folder)
    print_values({"written": written, "manifest": str(folder / "manifest.csv")}, format)
