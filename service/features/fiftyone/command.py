"""`cbir collection to-fiftyone`."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from cbir.search import command_options as options
from cbir.system.console import OutputFormat, Printed, StageBars, print_values


def export_fiftyone(
    collection: options.Folder,
    out: Annotated[Path, Argument(help="Empty or new folder for pictures, labels and vectors.")],
    find_text: options.FindText = False,
    format: Printed = OutputFormat.text,
) -> None:
    """Write a collection as a folder that FiftyOne reads (FiftyOneDataset).

    The pictures are of patients: only you can read the folder. Images with text in the pixels are left out.
    """
    from functools import partial

    from cbir import settings
    from cbir.store import Collection
    from service.features.fiftyone.fiftyone_folder import write_fiftyone_folder

    with Collection(collection) as opened, StageBars() as bars:
        written = write_fiftyone_folder(
            opened, out, settings.load(), partial(bars.show, "writing"), find_text=find_text
        )
    print_values({"samples": written.samples, "left_out": written.left_out, "folder": str(out)}, format)
