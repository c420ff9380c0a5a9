"""Origins of settings: command line, environment, file, or default."""

import os

from pydantic_settings import TomlConfigSettingsSource

from cbir.settings import PREFIX, Settings, load, settings_file


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
