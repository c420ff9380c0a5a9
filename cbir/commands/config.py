"""`cbir config`."""

import json
from enum import StrEnum
from typing import Annotated

import typer

from cbir import settings


class Format(StrEnum):
    """How settings are printed."""

    text = "text"
    json = "json"


def config(format: Annotated[Format, typer.Option(help="How it is printed.")] = Format.text) -> None:
    """The settings in force, where each comes from, and what it is for."""
    in_force, places = settings.load(), settings.setting_origins()
    values = in_force.model_dump(mode="json")
    rows = [
        {"name": name, "value": values[name], "from": places[name], "what": field.description}
        for name, field in settings.Settings.model_fields.items()
    ]
    if format is Format.json:
        typer.echo(json.dumps(rows))
        return
    for row in rows:
        typer.echo(f"{row['name']:24} {row['value']!s:14} {row['from']:13} {row['what']}")
