"""`cbir config`."""

import typer

from cbir import settings
from cbir.commands.output import OutputFormat, Printed, print_json
from cbir.setting_origins import setting_origins


def show_config(format: Printed = OutputFormat.text) -> None:
    """Print the settings in force, the origin of each, and its purpose."""
    values, origins = settings.load().model_dump(mode="json"), setting_origins()
    rows = [
        {"name": name, "value": values[name], "from": origins[name], "what": field.description}
        for name, field in settings.Settings.model_fields.items()
    ]
    if format is OutputFormat.json:
        print_json(rows)
        return
    for row in rows:
        typer.echo(f"{row['name']:24} {row['value']!s:14} {row['from']:13} {row['what']}")
