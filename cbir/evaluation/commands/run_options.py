"""Options of `cbir evaluate run` from a configuration file, a result, or a preset."""

import json
import tomllib
from pathlib import Path
from typing import Any

import typer

from cbir.errors import InvalidInput
from cbir.evaluation.presets import PRESETS, Preset

RESULT_KEY = "config"  # of summary.json: the options of that evaluation
NOT_KEPT = ("out", "config", "jobs")  # they do not decide the figures


def use_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take the options of a file as defaults, before those of a preset; a callback of Typer."""
    if path is not None:
        context.default_map = {**(context.default_map or {}), **read_config(path, context)}
    return path


def use_preset(context: typer.Context, preset: Preset | None) -> Preset | None:
    """Take the options of a preset as defaults, after those of a configuration; a callback of Typer."""
    if preset is not None:
        context.default_map = {**PRESETS[preset], **(context.default_map or {})}
    return preset


def read_config(path: Path, context: typer.Context) -> dict[str, Any]:
    """Return the options of a TOML or JSON file, or those that a summary.json states.

    Raises InvalidInput for a file that cannot be read, or names an option that the command lacks.
    """
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text) if path.suffix.lower() == ".toml" else json.loads(text)
    except OSError as error:
        raise InvalidInput(f"--config {path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # damaged JSON or TOML, or another encoding
        raise InvalidInput(f"--config {path} is no TOML or JSON: {error}") from error
    if isinstance(values, dict) and isinstance(values.get(RESULT_KEY), dict):
        values = values[RESULT_KEY]
    if not isinstance(values, dict):
        raise InvalidInput(f"--config {path} must hold names of options with their values")
    parameters = _option_names(context)
    values = {name.replace("-", "_"): value for name, value in values.items() if value is not None}
    if unknown := sorted(values.keys() - parameters.keys()):
        raise InvalidInput(
            f"--config {path}: no option {', '.join(unknown)}; there are {', '.join(sorted(parameters))}"
        )
    repeatable = {
        parameter.name for parameter in context.command.params if getattr(parameter, "multiple", False)
    }
    options = {}
    for name, value in values.items():
        is_list = parameters[name] in repeatable
        parts = value if isinstance(value, list) and is_list else [value]
        if not all(isinstance(part, str | int | float) for part in parts):
            kinds = "a text, or a list of texts" if is_list else "a text, a number, true or false"
            raise InvalidInput(f"--config {path}: {name} must be {kinds}")
        options[parameters[name]] = parts if is_list else value
    return options


def _option_names(context: typer.Context) -> dict[str, str]:
    """Return the names of the command's parameters by those of its options."""
    return {
        option.removeprefix("--").replace("-", "_"): parameter.name
        for parameter in context.command.params
        for option in parameter.opts
        if parameter.name not in (None, "config", "help") and option.startswith("--")
    }


def stated_options(context: typer.Context) -> dict[str, Any]:
    """Return the options in force that decide the figures, ready for JSON, with absolute paths."""
    names = {parameter: option for option, parameter in _option_names(context).items()}
    options: dict[str, Any] = {}
    for name, value in context.params.items():
        if name in NOT_KEPT or value is None:
            continue
        if isinstance(value, list | tuple):
            if value:
                options[names[name]] = [_in_json(part) for part in value]
        else:
            options[names[name]] = _in_json(value)
    if Path(options.get("queries", "")).is_file():
        options["queries"] = str(Path(options["queries"]).resolve())
    return options


def _in_json(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value.resolve())
    return str(value) if isinstance(value, Preset) else value
