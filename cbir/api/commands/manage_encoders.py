"""`cbir encoder ...`: pretrained networks that describe images."""

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from cbir import settings
from cbir.errors import CbirError, InvalidInput
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_json, results_console
from cbir.system.remedies import install_command

if TYPE_CHECKING:
    from cbir.descriptors import encoders
    from cbir.descriptors.encoders.encoder_files import EncoderInput, VolumeInput

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="List, show, get and add pretrained networks."
)

Name = Annotated[str, Argument(help="Name of the encoder; `cbir encoder list` shows all.")]


@app.command("list")
def list_encoders(format: Printed = OutputFormat.text) -> None:
    """List the encoders, built in and added."""
    from cbir import descriptors
    from cbir.descriptors import encoders

    rows = [_summary(name) for name in encoders.names()]
    if format is OutputFormat.json:
        print_json(rows)
        return
    from rich.table import Table

    columns = ("name", "values", "input", "licence", "status", "title")
    table = Table(*columns, box=None)
    for row in rows:
        table.add_row(*(str(row[column]) for column in columns))
    results_console().print(table, highlight=False)
    echo(
        "--profile of cbir index and cbir describe takes these; a descriptor without a network: "
        + ", ".join(descriptors.names())
        + "; the folder of a trained embedding; and two joined by +"
    )


@app.command("show")
def show_card(name: Name, format: Printed = OutputFormat.text) -> None:
    """Print the card of an encoder: weights, licence, input, outputs, and what it was trained on."""
    from cbir.descriptors import encoders

    card = encoders.get(name).card
    _print_card(card, format)


@app.command("get")
def store_encoder(
    name: Annotated[
        str, Argument(help="Encoder, or network on a hub: torchvision:NAME, timm:NAME or hf:ORG/NAME.")
    ],
    source: Annotated[
        Path | None, Option("--from", help="Folder with a hub's files; nothing is fetched then.")
    ] = None,
    stored_name: Annotated[
        str | None, Option("--name", help="Name of the encoder, by default made from the hub's.")
    ] = None,
    fit: Annotated[
        Literal["squash", "letterbox", "crop"] | None,
        Option(help="How images get the shape of the input, by default as the hub says."),
    ] = None,
    grid: Annotated[
        int | None, Option(min=1, max=8, help="Windows per side of the last map; 1 averages all of it.")
    ] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Fetch the weights of an encoder, convert them to ONNX now rather than with the first image, and print where."""
    from cbir.descriptors import encoders
    from cbir.descriptors.encoders import is_hub_address, parse_hub_address

    choices = (source, stored_name, fit, grid)
    if is_hub_address(name):
        address = parse_hub_address(name)
        if any(choice is not None for choice in choices) or address.encoder_name not in encoders.names():
            _require_hub_packages()
            from cbir.descriptors.encoders.hub.fetch_encoder import HubOptions, fetch_encoder

            options, folder = HubOptions(*choices), settings.load().encoder_folder
            card, path = fetch_encoder(address, folder, options, partial(typer.echo, err=True))
            _print_card(card, format, {"network": str(path)})
            return
    elif any(choice is not None for choice in choices):
        raise InvalidInput(f"{name} is not on a hub: --from, --name, --fit and --grid do not apply")
    encoder = encoders.get(name)
    with StageBars() as bars:
        bars.show("converting")
        path = encoder.store()
    if format is OutputFormat.json:
        print_json({"name": encoder.name, "hash": encoder.card.hash, "network": str(path)})
        return
    echo(path)


def _require_hub_packages() -> None:
    """Raise InvalidInput if a package is missing that converts every network of a hub."""
    for name in ("huggingface_hub", "onnxscript", "torch"):
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            raise InvalidInput(f"networks of hubs need {name}: {install_command('hub')}") from error


@app.command("add")
def add_network(
    name: Annotated[str, Argument(help="Name for the encoder.")],
    model: Annotated[Path, Argument(help="ONNX file with one image input.")],
    card: Annotated[Path | None, Option(help="JSON file with what the network does not say itself.")] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Check an ONNX model on four images and store it under a name.

    Prints its card, and what was assumed, in the requested format.
    """
    from cbir.descriptors.encoders.add_encoder import add_encoder

    added = add_encoder(name, model, card, settings.load().encoder_folder)
    _print_card(added.card, format, {"network": str(added.path), "assumed": list(added.assumed)})


def _summary(name: str) -> dict[str, Any]:
    from cbir.descriptors import encoders

    try:
        encoder = encoders.get(name)
    except InvalidInput as error:
        return {"name": name, "values": "", "input": "", "licence": "", "status": str(error), "title": ""}
    card, status = encoder.card, "ready"
    try:
        encoder.check_available()
    except CbirError as error:
        status = str(error)
    return {
        "name": name,
        "values": card.dimensions,
        "input": _input_size(card.input),
        "licence": card.licence,
        "status": status,
        "title": card.title,
    }


def _input_size(shape: "EncoderInput | VolumeInput") -> str:
    from cbir.descriptors.encoders.encoder_files import VolumeInput

    sides = [shape.width, shape.height, *([shape.depth] if isinstance(shape, VolumeInput) else [])]
    return " x ".join(map(str, sides))


def _print_card(
    card: "encoders.EncoderCard", format: OutputFormat, more: dict[str, Any] | None = None
) -> None:
    fields = {
        **card.model_dump(mode="json", exclude_none=True),
        "dimensions": card.dimensions,
        "hash": card.hash,
        **(more or {}),
    }
    if format is OutputFormat.json:
        print_json(fields)
        return
    for name, value in fields.items():
        values = value if isinstance(value, list) else [value]
        for item in values:
            text = (
                ", ".join(f"{key} {inner}" for key, inner in item.items()) if isinstance(item, dict) else item
            )
            echo(f"{name:13}{text}")
