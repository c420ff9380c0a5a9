"""`cbir config`."""

from cbir import settings
from cbir.api.setting_origins import setting_origins
from cbir.system.console import OutputFormat, Printed, echo, print_json
from cbir.system.device import choose_device


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
