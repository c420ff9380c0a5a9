"""Reference of the settings, from cbir/settings.py."""

from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic_core import PydanticUndefined

from cbir.settings import Settings
from docs_site.tables import code, escape_cell, markdown_table

HEAD = """# Settings

A setting comes from, in order of precedence: an option of the command line, an environment variable `CBIR_NAME`,
the file `cbir.toml` in the working directory (or the file that `CBIR_CONFIG` names), its default. `cbir admin config`
prints the values in force and where each comes from. Lists are TOML lists in the file, and separated by commas in the
environment.

```toml
port = 9000
burned_in = "refuse"
index_roots = ["/archive"]
```
"""


def kind_of(annotation: Any) -> str:
    """Return the type of a setting in words."""
    if get_origin(annotation) is Literal:
        return ", ".join(get_args(annotation))
    if get_origin(annotation) in (Union, UnionType):
        return kind_of(next(item for item in get_args(annotation) if item is not type(None)))
    if hasattr(annotation, "__metadata__"):
        return kind_of(annotation.__origin__)
    names = {
        int: "whole number",
        float: "number",
        str: "text",
        bool: "true, false",
        tuple: "list",
        dict: "table",
    }
    return names.get(get_origin(annotation) or annotation, "path")


def _default(field: Any) -> str:
    if field.default is PydanticUndefined:
        return "of the user's folders"
    if field.default is None:
        return "unset"
    if isinstance(field.default, tuple):
        return code(", ".join(field.default)) or "empty"
    if isinstance(field.default, bool):
        return code(str(field.default).lower())
    return code(str(field.default)) if field.default not in ("", {}) else "empty"


def settings_page() -> str:
    """Return the page of all settings as Markdown."""
    rows = [
        (code(name), kind_of(field.annotation), _default(field), escape_cell(field.description or ""))
        for name, field in Settings.model_fields.items()
    ]
    return HEAD + "\n".join(markdown_table(("setting", "type", "default", "meaning"), rows)) + "\n"
