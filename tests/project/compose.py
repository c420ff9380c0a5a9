"""Compose files as Docker reads several of them: the later ones go over the earlier ones."""

import re
from typing import Any

import yaml

from tests.project.dockerfile import ROOT

REPLACED = ("command", "entrypoint")  # lists that are not appended


def read_compose(*names: str) -> dict[str, Any]:
    """Return the content of compose files of the repository together, each over those before it."""
    together: dict[str, Any] = {}
    for name in names:
        together = _over(together, yaml.safe_load((ROOT / name).read_text()))
    return together


def _over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        before = result.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            result[key] = _over(before, value)
        elif isinstance(before, list) and isinstance(value, list) and key not in REPLACED:
            result[key] = list(dict.fromkeys([*before, *value]))
        else:
            result[key] = value
    return result


def interpolated(text: str) -> str:
    """Return a value with the defaults of its variables, and `$` for `$$`."""
    return re.sub(r"\$\{\w+:?-([^}]*)\}", r"\1", text).replace("$$", "$")
