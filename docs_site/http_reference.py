"""Reference of the HTTP API, from docs/openapi.json."""

import json
from collections import defaultdict
from typing import Any

from docs_site.source_pages import ROOT
from docs_site.tables import code, escape_cell, markdown_table

HEAD = """# HTTP API

Written from [openapi.json](../openapi.json), which a running service has at `/openapi.json`; its page `/docs` has
forms to try the operations. Errors are [problem details](../errors.md). Where tokens are required, an operation needs
a [token](../access.md#tokens) with its scope.
"""
SUCCESS = ("200", "201", "202", "204", "304")


def kind_of(schema: dict[str, Any]) -> str:
    """Return the type of a JSON schema as Markdown, with links to schemas of the page."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(kind_of(item) for item in schema[key]))
    if "enum" in schema or "const" in schema:
        return ", ".join(code(json.dumps(item)) for item in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        items = schema.get("items", {}) or next(iter(schema.get("prefixItems", [])), {})
        return f"list of {kind_of(items)}"
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
        rows.append((code(name), kind_of(field), escape_cell(" ".join(notes))))
    return rows


def _operation(path: str, method: str, operation: dict[str, Any]) -> list[str]:
    lines = [f"### {method.upper()} {path}", "", f"**{operation['summary']}**", ""]
    lines += [operation.get("description", ""), ""]
    if scope := operation.get("x-scope"):
        lines += [f"Scope: `{scope}`.", ""]
    parameters = [
        (code(item["name"]), item["in"], kind_of(item["schema"]), escape_cell(item.get("description", "")))
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
            lines += [f"Body `{media}`: {kind_of(schema)}.", ""]
    for status, answer in operation["responses"].items():
        if status in SUCCESS:
            content = [
                f"`{kind}` {kind_of(body.get('schema', {}))}"
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
    lines = [HEAD]
    for tag, operations in by_tag.items():
        lines += [f"## {tag.capitalize()}", "", *(line for operation in operations for line in operation)]
    lines += ["## Schemas", ""]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += [f"### {name}", "", schema.get("description", ""), ""]
        lines += markdown_table(("field", "type", "meaning"), field_rows(schema))
        lines += [] if schema.get("properties") else [kind_of(schema), ""]
    return "\n".join(lines) + "\n"
