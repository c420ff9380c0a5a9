"""JSON schemas in a few words, and descriptions as HTML, for the documentation page."""

import re
from typing import Any

from markupsafe import Markup, escape

LIMITS = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("maxLength", "at most {} characters"),
    ("maxItems", "at most {}"),
)
CODE = re.compile(r"`([^`]+)`")


def mark_up(text: str) -> Markup:
    """Return `text` as HTML: paragraphs, and names in backticks as code."""
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    html = "</p><p>".join(CODE.sub(r"<code>\1</code>", str(escape(part))) for part in paragraphs)
    return Markup(f"<p>{html}</p>")


def describe_schema(schema: dict[str, Any]) -> str:
    """Return type and limits of a JSON `schema`: "integer, 1 to 1000"."""
    if "anyOf" in schema:
        return " or ".join(describe_schema(item) for item in schema["anyOf"])
    limits = describe_limits(schema)
    return f"{_type_of(schema)}, {limits}" if limits else _type_of(schema)


def describe_limits(schema: dict[str, Any]) -> str:
    """Return the limits of a JSON `schema`, "" if it has none."""
    if "prefixItems" in schema:
        return ""
    if "minimum" in schema and "maximum" in schema:
        return f"{schema['minimum']} to {schema['maximum']}"
    return ", ".join(text.format(schema[key]) for key, text in LIMITS if key in schema)


def _type_of(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if schema.get("contentMediaType") == "application/octet-stream":
        return "file"
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    if "prefixItems" in schema:
        return f"{len(schema['prefixItems'])} numbers"
    if schema.get("type") == "array":
        return f"list of {describe_schema(schema['items'])}" if "items" in schema else "list"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"{describe_schema(schema['additionalProperties'])} by name"
    return str(schema.get("type", "any value"))
