"""`cbir dataset ...`: phantoms, and manifests of published data sets for `cbir index --labels`."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from cbir.errors import InvalidInput
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_values
from cbir.system.lazy_commands import command_group

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


app = command_group("cbir.commands.dataset", "Prepare a published data set for indexing, or draw phantoms.")


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
