"""References of the site: the command line, the settings, and the HTTP API."""

import inspect
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import typer.main
from pydantic_core import PydanticUndefined

from cbir.api.main import app
from cbir.settings import Settings
from cbir.system.lazy_commands import SearchCommand, all_options, load_command, name_values
from docs_site.source_pages import ROOT

COMMANDS_HEAD = """# Commands

Written from the program itself: the same as `cbir COMMAND --help-all`, where `--help` of a command with many options
shows the frequent ones. Exit codes: 0 for success, 1 where a check has
found something, 2 for wrong input, 3 where some files could not be used.
"""
SETTINGS_HEAD = """# Settings

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
HTTP_HEAD = """# HTTP API

Written from [openapi.json](../openapi.json), which a running service has at `/openapi.json`; its page `/docs` has
forms to try the operations. Errors are [problem details](../errors.md). Where tokens are required, an operation needs
a [token](../access.md#tokens) with its scope.
"""
SUCCESS = ("200", "201", "202", "204", "304")


def escape_cell(text: str) -> str:
    """Escape what would end a cell of a table or become HTML."""
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[").split())


def code(text: str) -> str:
    """Return inline code for a cell of a table."""
    return f"`{text}`" if text else ""


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; cells are Markdown."""
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return ["", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *lines, ""] if lines else [""]


def walk_commands() -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, command and context of each command, groups before their members."""
    command = typer.main.get_command(app)
    yield from _walk(command, command.make_context("cbir", [], resilient_parsing=True))


def _walk(command: Any, context: Any) -> Iterator[tuple[str, Any, Any]]:
    yield context.command_path, command, context
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            if not member.hidden:
                yield from _walk(
                    member, member.make_context(name, [], parent=context, resilient_parsing=True)
                )
    if isinstance(command, SearchCommand):
        for name, entry in command.kinds.items():
            kind, words = load_command(entry), f"{context.info_name} --{name}"
            yield from _walk(
                kind, kind.make_context(words, [], parent=context.parent, resilient_parsing=True)
            )


def command_page() -> str:
    """Return the page of all commands as Markdown."""
    lines = [COMMANDS_HEAD]
    for name, command, context in walk_commands():
        depth = min(len(name.split()) + 1, 4)
        lines += [f"{'#' * depth} {name}", "", inspect.cleandoc(command.help or ""), ""]
        if not hasattr(command, "list_commands"):
            lines += [
                "```console",
                " ".join(command.get_usage(context).removeprefix("Usage: ").split()),
                "```",
            ]
        for parameter in command.params:
            name_values(parameter, context)
        with all_options(command):
            rows = [
                record for item in command.params if (record := item.get_help_record(context)) is not None
            ]
        lines += markdown_table(
            ("option", "meaning"), [(code(left), escape_cell(right)) for left, right in rows]
        )
    return "\n".join(lines) + "\n"


def setting_kind(annotation: Any) -> str:
    """Return the type of a setting in words."""
    if get_origin(annotation) is Literal:
        return ", ".join(get_args(annotation))
    if get_origin(annotation) in (Union, UnionType):
        return setting_kind(next(item for item in get_args(annotation) if item is not type(None)))
    if hasattr(annotation, "__metadata__"):
        return setting_kind(annotation.__origin__)
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
        (code(name), setting_kind(field.annotation), _default(field), escape_cell(field.description or ""))
        for name, field in Settings.model_fields.items()
    ]
    return SETTINGS_HEAD + "\n".join(markdown_table(("setting", "type", "default", "meaning"), rows)) + "\n"


def schema_kind(schema: dict[str, Any]) -> str:
    """Return the type of a JSON schema as Markdown, with links to schemas of the page."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(schema_kind(item) for item in schema[key]))
    if "enum" in schema or "const" in schema:
        return ", ".join(code(json.dumps(item)) for item in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        items = schema.get("items", {}) or next(iter(schema.get("prefixItems", [])), {})
        return f"list of {schema_kind(items)}"
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def field_rows(schema: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return name, type and meaning of each property of an object."""
    required = schema.get("required", [])
    rows = []
    for name, field in schema.get("properties", {}).items():
        default, meaning = field.get("default"), field.get("description", "")
        notes = [f"{meaning.removesuffix('.')}."] if meaning else []
        notes += [f"Default: {json.dumps(default)}."] if default not in (None, [], {}) else []
        notes += ["Required."] if name in required else []
        rows.append((code(name), schema_kind(field), escape_cell(" ".join(notes))))
    return rows


def _operation(path: str, method: str, operation: dict[str, Any]) -> list[str]:
    lines = [f"### {method.upper()} {path}", "", f"**{operation['summary']}**", ""]
    lines += [operation.get("description", ""), ""]
    if scope := operation.get("x-scope"):
        lines += [f"Scope: `{scope}`.", ""]
    parameters = [
        (
            code(item["name"]),
            item["in"],
            schema_kind(item["schema"]),
            escape_cell(item.get("description", "")),
        )
        for item in operation.get("parameters", [])
    ]
    lines += markdown_table(("parameter", "in", "type", "meaning"), parameters)
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = content.get("schema", {})
        if schema.get("properties"):
            lines += [
                f"Body `{media}`:",
                "",
                *markdown_table(("field", "type", "meaning"), field_rows(schema)),
            ]
        else:
            lines += [f"Body `{media}`: {schema_kind(schema)}.", ""]
    for status, answer in operation["responses"].items():
        if status in SUCCESS:
            content = [
                f"`{kind}` {schema_kind(body.get('schema', {}))}"
                for kind, body in answer.get("content", {}).items()
            ]
            lines += [f"Response {status}: {' or '.join(content) or answer['description']}", ""]
    errors = [f"[{status}](../errors.md)" for status in operation["responses"] if status not in SUCCESS]
    return [*lines, f"Errors: {', '.join(errors)}.", ""] if errors else lines


def http_page() -> str:
    """Return the page of all operations and schemas as Markdown."""
    document = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))
    by_tag = defaultdict(list)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            by_tag[operation.get("tags", ["service"])[0]].append(_operation(path, method, operation))
    lines = [HTTP_HEAD]
    for tag, operations in by_tag.items():
        lines += [f"## {tag.capitalize()}", "", *(line for operation in operations for line in operation)]
    lines += ["## Schemas", ""]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += [f"### {name}", "", schema.get("description", ""), ""]
        lines += markdown_table(("field", "type", "meaning"), field_rows(schema))
        lines += [] if schema.get("properties") else [schema_kind(schema), ""]
    return "\n".join(lines) + "\n"
