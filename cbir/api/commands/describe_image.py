"""`cbir describe`."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from cbir import settings
from cbir.errors import InvalidInput
from cbir.store.writing.default_profile import DEFAULT_PROFILE
from cbir.system.console import OutputFormat, Printed, echo, print_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cbir.images import Image, Limits


def describe_image(
    image: Annotated[
        Path, Argument(help="Image file; for ct-volume a folder or ZIP archive of a series, or a NIfTI file.")
    ],
    descriptor: Annotated[
        str,
        Option(
            "--descriptor",
            "--profile",
            help="One of color_layout, edge_histogram, edge_histogram_150, tamura, huang2012, an encoder, "
            "the folder of a trained embedding, or a network and a descriptor: lite0+huang2012.",
        ),
    ] = DEFAULT_PROFILE,
    frame: Annotated[int, Option(help="Frame of a multi-frame file, from 1.", min=1)] = 1,
    format: Printed = OutputFormat.text,
) -> None:
    """Print the descriptor of one image, or of one CT series."""
    from cbir import descriptors
    from cbir.images import Limits

    loaded = settings.load()
    name, _, model = descriptors.resolve_descriptor(descriptor)
    describe = descriptors.get(name, model, loaded.device)
    values = printable_values(describe(_read(image, frame, name, Limits.from_settings(loaded))))
    if format is OutputFormat.json:
        print_json({"descriptor": describe.name, "values": values})
        return
    for part in describe.parts:
        echo(" ".join([part.name, *map(str, values[part.start : part.stop])]))


def _read(path: Path, frame: int, descriptor: str, limits: "Limits") -> "Image":
    from cbir.descriptors.encoder_descriptor import volume_grid
    from cbir.images import read_images
    from cbir.ingest.query_file import read_query_volume

    if grid := volume_grid(descriptor):
        return read_query_volume(path, limits, grid)
    selected = next(islice(read_images(path, limits=limits), frame - 1, None), None)
    if selected is None:
        raise InvalidInput(f"{path} has no frame {frame}; frames are counted from 1")
    return selected


def printable_values(vector: "NDArray[np.float32]") -> list[int] | list[float]:
    """Return integers if all values are whole, else the shortest decimals that give the same float32."""
    import numpy as np

    if (vector == np.rint(vector)).all():
        return [int(value) for value in vector]
    return [float(str(value)) for value in vector]
