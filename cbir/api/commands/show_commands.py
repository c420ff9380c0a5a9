"""`cbir describe`, `cbir admin config` and `cbir collection labels`, which only show; origins of settings."""

import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic_settings import TomlConfigSettingsSource
from typer import Argument, Option

from cbir import settings
from cbir.errors import InvalidInput
from cbir.search import command_options as options
from cbir.settings import PREFIX, Settings, load, settings_file
from cbir.store.writing.default_profile import DEFAULT_PROFILE
from cbir.system.console import OutputFormat, Printed, echo, print_json, results_console
from cbir.system.device import choose_device

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cbir.images import Image, Limits


def setting_origins() -> dict[str, str]:
    """Return the origin of each setting: "environment", the settings file, or "default"."""
    in_file = TomlConfigSettingsSource(Settings, settings_file())()

    def origin(name: str) -> str:
        if f"{PREFIX}{name.upper()}" in os.environ:
            return "environment"
        return str(settings_file()) if name in in_file else "default"

    return {name: origin(name) for name in Settings.model_fields}


def origins_in_force(active: Settings) -> dict[str, str]:
    """Return the origin of each setting of `active`, as `setting_origins` names it, or "command line"."""
    loaded = load()
    return {
        name: origin if getattr(active, name) == getattr(loaded, name) else "command line"
        for name, origin in setting_origins().items()
    }


def describe_image(
    image: Annotated[
        Path, Argument(help="Image file; for ct-volume a folder or ZIP archive of a series, or a NIfTI file.")
    ],
    descriptor: Annotated[
        str,
        Option(
            "--profile",
            "--descriptor",
            help=f"A {options.DESCRIPTORS}. Descriptors: color_layout, edge_histogram, edge_histogram_150, tamura, "
            "huang2012; encoders: `cbir encoder list`.",
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
    from cbir.descriptors.network_descriptors import volume_grid
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


def show_config(format: Printed = OutputFormat.text) -> None:
    """Print the settings in force, the origin of each, and its purpose; and the device in use, and why."""
    values, origins = settings.load().model_dump(mode="json"), setting_origins()
    rows = [
        {"name": name, "value": values[name], "from": origins[name], "what": field.description}
        for name, field in settings.Settings.model_fields.items()
    ]
    device = choose_device(values["device"])
    if format is OutputFormat.json:
        in_use = {"in_use": device.name, "because": device.reason}
        print_json([row | in_use if row["name"] == "device" else row for row in rows])
        return
    for row in rows:
        echo(f"{row['name']:24} {row['value']!s:14} {row['from']:13} {row['what']}")
    echo(f"\ndevice in use: {device}")


def list_labels(
    collection: options.Folder,
    key: Annotated[str | None, Argument(metavar="KEY", help="Label whose values are listed.")] = None,
    where: options.Where = None,
    limit: Annotated[int, Option(min=1, help="Most values that are listed, the most frequent first.")] = 100,
    format: Printed = OutputFormat.text,
) -> None:
    """List the labels with their numbers of images and values, or the values of one with their numbers of images."""
    from cbir.store import Collection

    with Collection(collection) as opened:
        conditions = opened.conditions(where or ())
        if key is None:
            keys = [row._asdict() for row in opened.list_label_keys(conditions)]
            _print_rows({"items": keys}, format)
            return
        values = opened.list_label_values(key, conditions, 0, limit)
    _print_rows(values._asdict() | {"items": [row._asdict() for row in values.items]}, format)


def _print_rows(values: dict[str, Any], format: OutputFormat) -> None:
    """Print JSON, or `items` as a table with a line about what is not in it."""
    from rich.table import Table

    if format is OutputFormat.json:
        print_json(values)
        return
    rows, console = values["items"], results_console()
    table = Table(*(rows[0] if rows else ()), box=None)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    console.print(table)
    if values.get("minimum") is not None:
        console.print(f"from {values['minimum']:g} to {values['maximum']:g}", style="dim")
    if values.get("values", 0) > len(rows):
        console.print(f"and {values['values'] - len(rows)} more values; --limit shows them", style="dim")
